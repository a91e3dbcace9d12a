// SPDX-License-Identifier: Apache-2.0
#include "tools/sum_source.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "job/event.h"
#include "job/gate.h"
#include "tools/paged_directory.h"

namespace spate::tools {
namespace {

constexpr std::size_t kFirstPiece = 64U * 1024;
constexpr std::size_t kLargePiece = 1U << 20U;
constexpr std::size_t kSummedAtOnce = 4U << 20U;

SumItem::Kind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return SumItem::Kind::kFile;
  if (S_ISDIR(mode)) return SumItem::Kind::kDirectory;
  return S_ISLNK(mode) ? SumItem::Kind::kSymlink : SumItem::Kind::kOther;
}

SumItem::Kind kind_of(FileType type) {
  switch (type) {
    case FileType::kRegular: return SumItem::Kind::kFile;
    case FileType::kDirectory: return SumItem::Kind::kDirectory;
    case FileType::kSymlink: return SumItem::Kind::kSymlink;
    default: return SumItem::Kind::kOther;
  }
}

std::string below(const std::string& root, const std::string& name) {
  return name.empty() ? root : join_path(root, name);
}
std::string child(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : join_path(directory, name);
}

Result<std::string> read_link(const std::string& path) {
  std::string target(kMaxSymlinkBytes + 1, '\0');
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  if (n < 0) return errno_error(errno, path);
  target.resize(static_cast<std::size_t>(n));
  return target;
}

/// Local files, read with blocking system calls, since there is nothing else to do meanwhile.
class LocalSource final : public SumSource {
 public:
  explicit LocalSource(std::string root) : root_(std::move(root)) {}

  job::Task<Result<SumItem>> look(std::string name) override {
    struct stat st{};
    const std::string path = below(root_, name);
    if (::stat(path.c_str(), &st) != 0) co_return errno_error(errno, path);
    SumItem item;
    item.kind = kind_of(st.st_mode);
    item.name = std::move(name);
    co_return item;
  }

  job::Task<Result<std::vector<SumItem>>> list(std::string directory) override { co_return list_now(directory); }

  job::Task<Result<std::string>> digest(std::string name, DigestKind kind, std::uint64_t& bytes) override {
    co_return digest_now(below(root_, name), kind, bytes);
  }

 private:
  Result<std::vector<SumItem>> list_now(const std::string& directory) {
    const std::string path = below(root_, directory);
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(path.c_str()), ::closedir);
    if (open == nullptr) return errno_error(errno, path);
    std::vector<SumItem> items;
    for (const dirent* entry = ::readdir(open.get()); entry != nullptr; entry = ::readdir(open.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat st{};
      if (::fstatat(::dirfd(open.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno_error(errno, join_path(path, name));
      SumItem item;
      item.kind = kind_of(st.st_mode);
      item.name = child(directory, name);
      if (item.kind == SumItem::Kind::kSymlink) {
        SPATE_TRY(item.target, read_link(join_path(path, name)));
      }
      items.push_back(std::move(item));
    }
    return items;
  }

  static Result<std::string> digest_now(const std::string& path, DigestKind kind, std::uint64_t& bytes) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return errno_error(errno, path);
    Digest digest(kind);
    Buffer buffer(kFirstPiece);
    for (;;) {
      const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_error(errno, path);
      if (n == 0) return digest.hex();
      digest.update(std::as_const(buffer).view().first(static_cast<std::size_t>(n)));
      bytes += static_cast<std::uint64_t>(n);
      if (static_cast<std::size_t>(n) == buffer.size() && buffer.size() < kLargePiece) buffer = Buffer(kLargePiece);
    }
  }

  std::string root_;
};

/// Reads a file piece by piece, and requests the next piece while the present one is processed.
class AheadReader {
 public:
  AheadReader(job::Executor& executor, client::File& file) : file_(file), gate_(executor), done_(executor) {
    begin(kFirstPiece);
  }
  job::Task<void> close() { co_await gate_.close(); }

  /// The next piece; empty at the end. Valid until the second next call.
  job::Task<Result<ByteView>> next() {
    if (ended_) co_return ByteView();
    std::ignore = co_await done_.wait();
    if (!got_) co_return got_.error();
    const auto size = static_cast<std::size_t>(*got_);
    const ByteView piece = std::as_const(buffers_[current_]).view().first(size);
    ended_ = size < buffers_[current_].size();
    offset_ += size;
    current_ = 1 - current_;
    if (!ended_) begin(kSummedAtOnce);
    co_return piece;
  }

 private:
  void begin(std::size_t size) {
    if (buffers_[current_].size() != size) buffers_[current_] = Buffer(size, Buffer::kPageAlignment);
    done_.reset();
    job::spawn(gate_, read());
  }
  job::Task<void> read() {
    got_ = co_await file_.read(offset_, buffers_[current_].view());
    done_.set();
  }

  client::File& file_;
  job::Gate gate_;
  job::Event done_;
  Buffer buffers_[2];
  std::size_t current_ = 0;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
  Result<std::uint64_t> got_ = std::uint64_t{0};
};

class RemoteSource final : public SumSource {
 public:
  RemoteSource(client::Client& client, std::string root) : client_(client), root_(std::move(root)) {}

  job::Task<Result<SumItem>> look(std::string name) override {
    const std::string path = below(root_, name);
    auto object = co_await client_.lookup(client::path_from_root(path));
    if (!object) co_return std::move(object).error().within("spate:" + path);
    SumItem item;
    item.kind = kind_of(object->attributes.type);
    item.name = std::move(name);
    co_return item;
  }

  job::Task<Result<std::vector<SumItem>>> list(std::string directory) override {
    const std::string path = below(root_, directory);
    auto listed = co_await list_path(path, directory);
    if (!listed) co_return std::move(listed).error().within("spate:" + path);
    co_return listed;
  }

  job::Task<Result<std::string>> digest(std::string name, DigestKind kind, std::uint64_t& bytes) override {
    const std::string path = below(root_, name);
    auto file = co_await client_.open(client::path_from_root(path), wire::kOpenRead);
    if (!file) co_return std::move(file).error().within("spate:" + path);
    auto hex = co_await digest_file(**file, kind, bytes);
    auto closed = co_await (*file)->close();
    if (!hex) co_return std::move(hex).error().within("spate:" + path);
    if (!closed) co_return std::move(closed).error().within("spate:" + path);
    co_return hex;
  }

 private:
  job::Task<Result<std::vector<SumItem>>> list_path(const std::string& path, const std::string& directory) {
    SPATE_CO_TRY(const auto object, co_await client_.lookup(client::path_from_root(path)));
    PagedDirectory listing(object.attributes.handle, false);
    std::vector<SumItem> items;
    while (!listing.all_listed()) {
      SPATE_CO_TRY(std::ignore, co_await listing.list_more(client_));
      while (listing.has_next()) {
        const wire::DirectoryEntry entry = listing.take();
        SumItem item;
        item.kind = kind_of(entry.type);
        item.name = child(directory, entry.name);
        if (item.kind == SumItem::Kind::kSymlink) {
          SPATE_CO_TRY(auto link, co_await client_.lookup(client::path_from_root(below(root_, item.name), false)));
          item.target = std::move(link.target);
        }
        items.push_back(std::move(item));
      }
    }
    co_return items;
  }

  job::Task<Result<std::string>> digest_file(client::File& file, DigestKind kind, std::uint64_t& bytes) {
    AheadReader reader(client_.cluster().executor(), file);
    Digest digest(kind);
    Result<std::string> hex = std::string();
    for (;;) {
      auto piece = co_await reader.next();
      if (!piece) {
        hex = std::move(piece).error();
        break;
      }
      if (piece->empty()) {
        hex = digest.hex();
        break;
      }
      digest.update(*piece);
      bytes += piece->size();
    }
    co_await reader.close();
    co_return hex;
  }

  client::Client& client_;
  std::string root_;
};

}  // namespace

std::unique_ptr<SumSource> local_sum_source(std::string root) { return std::make_unique<LocalSource>(std::move(root)); }

std::unique_ptr<SumSource> remote_sum_source(client::Client& client, std::string root) {
  return std::make_unique<RemoteSource>(client, std::move(root));
}

}  // namespace spate::tools
