// SPDX-License-Identifier: Apache-2.0
#include "tools/manual.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/clock.h"
#include "base/error.h"
#include "tools/commands.h"

namespace spate::tools {
namespace {

struct ManualOptions {
  std::string folder;
  std::vector<std::string> inputs;
};

/// The date of a reproducible build (SOURCE_DATE_EPOCH), else today.
std::string edition_date() {
  const char* const fixed = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now = fixed != nullptr ? static_cast<std::time_t>(std::strtoll(fixed, nullptr, 10))
                                           : static_cast<std::time_t>(SystemClock().wall().ns / 1'000'000'000);
  std::tm parts{};
  std::array<char, 16> text{};
  if (::gmtime_r(&now, &parts) == nullptr || std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts) == 0)
    return "";
  return text.data();
}

Result<std::string> read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) return errno_error(errno, file.string());
  return text;
}

/// Writes DIRECTORY/man1/spate.1
Result<void> write_page(const std::filesystem::path& root, const std::string& file, const std::string& text) {
  const std::filesystem::path folder = root / (std::string("man") + file.back());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return errno_error(error.value(), folder.string());
  std::ofstream out(folder / file, std::ios::trunc | std::ios::binary);
  out << text;
  out.close();
  if (out.fail()) return errno_error(errno, (folder / file).string());
  return {};
}

/// Makes another name of a page in the same section.
Result<void> link_page(const std::filesystem::path& root, const std::string& file, const std::string& page) {
  const std::filesystem::path name = root / (std::string("man") + file.back()) / file;
  std::error_code error;
  std::filesystem::remove(name, error);
  std::filesystem::create_symlink(page, name, error);
  if (error) return errno_error(error.value(), name.string());
  return {};
}

Result<void> write_header_pages(const std::filesystem::path& root, const PageName& name, const std::string& header) {
  ManualPage page = page_of_header(name, header);
  page.see_also({"spate(1)", "spate(7)"});
  SPATE_TRY(std::ignore, write_page(root, page.file_name(), page.text()));
  for (const std::string& function : functions_of_header(header, "spate_")) {
    SPATE_TRY(std::ignore, link_page(root, function + ".3", page.file_name()));
  }
  return {};
}

/// Makes links for the names by which mount(8) calls spate-mount.
Result<void> write_mount_links(const std::filesystem::path& root, const std::string& file) {
  for (const char* const name : {"mount.spate.8", "mount.fuse.spate.8"}) {
    SPATE_TRY(std::ignore, link_page(root, name, file));
  }
  return {};
}

/// Writes one of the pages from other texts: FOLDER/spate.h, FOLDER/spated.8 (the output of `spated --help`).
Result<void> write_input(const std::filesystem::path& root, const ManualEdition& edition, const std::string& input) {
  const std::filesystem::path file(input);
  SPATE_TRY(const auto text, read_text(file));
  if (file.extension() == ".h") {
    const PageName name{file.filename(), '3', "the C interface of Spate, a parallel file system", edition.date,
                        edition.version};
    return write_header_pages(root, name, text);
  }
  const std::string extension = file.extension();
  if (extension.size() != 2 || extension[1] < '1' || extension[1] > '8')
    return Error::told(Errc::kInvalidArgument,
                       input + ": neither a header nor the help of a program, named as its page");
  ManualPage page = page_of_help({file.stem(), extension[1], "", edition.date, edition.version}, text);
  page.see_also({"spate(1)", "spate.toml(5)", "spate(7)"});
  SPATE_TRY(std::ignore, write_page(root, page.file_name(), page.text()));
  return page.name().name == "spate-mount" ? write_mount_links(root, page.file_name()) : Result<void>();
}

Result<void> write_all(const ManualOptions& options) {
  const ManualEdition edition{edition_date(), SPATE_VERSION};
  const std::filesystem::path root(options.folder);
  std::vector<ManualPage> pages = command_pages(edition);
  pages.push_back(configuration_page(edition));
  pages.push_back(overview_page(edition));
  for (const ManualPage& page : pages) {
    SPATE_TRY(std::ignore, write_page(root, page.file_name(), page.text()));
  }
  for (const std::string& input : options.inputs) {
    SPATE_TRY(std::ignore, write_input(root, edition, input));
  }
  return {};
}

}  // namespace

Command make_manual() {
  auto options = std::make_shared<ManualOptions>();
  Command command;
  command.name = "manual";
  command.summary = "write the manual pages (for the installation)";
  command.positionals = {
      {"DIRECTORY", "gets man1, man5, ...", &options->folder, true},
      {"INPUT", "a header, or what a program's --help prints, in a file named as its page", &options->inputs}};
  command.run = [options](Context& context) {
    const auto written = write_all(*options);
    return written ? kExitOk : context.fail(written.error());
  };
  return command;
}

}  // namespace spate::tools
