// SPDX-License-Identifier: Apache-2.0
// NameOp: an operation on the name space; its effect on a Tree, and the contents of its answer.
#pragma once

#include "tests/cluster/name_walk.h"

namespace spate::cluster {

enum class NameOpKind : std::uint8_t {
  kLookup,
  kReaddir,  // by handle, all entries at once
  kOpen,
  kCreate,
  kMkdir,
  kSymlink,
  kLink,
  kUnlink,
  kRmdir,
  kRename,
  kSetattr,
  kTruncate,
  kGetxattr,
  kSetxattr,
  kListxattr,
  kRemovexattr,
};
std::string_view name(NameOpKind kind);
bool changes(NameOpKind kind);

struct NameOp {
  NameOpKind kind = NameOpKind::kLookup;
  Path path;
  Path other;                         // link: new name; rename: destination; symlink: target
  bool follow = true;                 // whether a link at the end of `path` is followed
  bool exclusive = false;             // create
  std::uint8_t flags = 0;             // rename, setxattr: as on the wire
  std::uint16_t xattr = 0;            // number of the attribute's name
  std::uint16_t value = 0;            // setxattr
  std::optional<std::uint32_t> mode;  // create, mkdir: always; setattr: if given
  std::optional<std::int64_t> mtime;  // setattr
  std::uint64_t handle = 0;           // readdir
  std::uint16_t target = 0;           // symlink: the number of `other` in Targets
  NodeId number = 0;                  // of this operation, and of the object that it makes
};
std::string to_string(const NameTable& names, const NameOp& op);

struct Listed {
  NameId name = 0;
  FileType type = FileType::kRegular;
  std::uint64_t handle = 0;
  NodeId node = 0;  // in a prediction only
};

/// The contents of an answer, or the prediction of them.
struct Facts {
  Errc code = Errc::kOk;
  bool object = false;  // the following fields are set
  NodeId node = 0;      // in a prediction only
  std::uint64_t handle = 0;
  FileType type = FileType::kRegular;
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  std::uint32_t entries = 0;
  std::int64_t mtime = kUnknownTime;
  std::string target;
  std::uint16_t xattr = 0;      // getxattr: the value; listxattr: a bit for each name
  std::vector<Listed> listing;  // readdir, by name
};
std::string to_string(const NameTable& names, const Facts& facts);

/// Carries out the operation in one step, as docs/consistency.md describes it. A failure changes nothing.
Facts apply(Tree& tree, const NameOp& op, const Targets& targets);

/// Whether the answer can follow from the prediction. Notes handles that are new to the tree.
bool agrees(Tree& tree, const Facts& predicted, const Facts& told);

}  // namespace spate::cluster
