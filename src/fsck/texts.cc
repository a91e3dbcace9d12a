// SPDX-License-Identifier: Apache-2.0
#include "fsck/texts.h"

#include "base/printable.h"
#include "trove/datafile_name.h"

namespace spate::fsck {
namespace {

using wire::Damage;
using wire::Finding;

std::string object(Handle handle) { return "object " + std::to_string(handle.value); }

std::string datafile(const Finding& finding) {
  const trove::DatafilePath path({finding.handle, finding.slot.slot});
  return "target " + std::to_string(finding.slot.target.value) + ", d/" + path.c_str();
}

std::string kind_of_record(const Bytes& key) {
  if (key.empty()) return "a record";
  switch (static_cast<char>(key[0])) {
    case 'i': return "its inode";
    case 'd': return "an entry";
    case 'x': return "an extended attribute";
    case 's': return "a session";
    case 'a': return "a remembered answer";
    case 'o': return "an open";
    case 'r': return "a removal";
    case 't': return "a truncate intent";
    case 'u': return "an unsettled record";
    default: return "a record";
  }
}

std::string says_but(const Finding& finding, const char* what) {
  return "says " + std::to_string(finding.recorded) + " " + what + ", but there are " + std::to_string(finding.actual);
}

std::string of_entry(const Finding& finding) {
  switch (finding.damage) {
    case Damage::kDanglingEntry: return "leads to " + object(finding.handle) + ", which is not there";
    case Damage::kMissingDirectory: return "has entries, but its inode is missing";
    case Damage::kWrongEntryType: return "is entered with another type than " + object(finding.handle) + " has";
    case Damage::kMisfiledEntry: return "stands in a wrong place of its directory: nobody finds it by its name";
    case Damage::kWrongDirectoryCounts: return says_but(finding, "entries") + ", or its link count does not fit";
    case Damage::kWrongParent:
      if (finding.name.empty()) return {};
      return "leads to " + object(finding.handle) + ", which says it is in object " + std::to_string(finding.recorded);
    case Damage::kSecondName: return "is a second name of a directory, " + object(finding.handle);
    case Damage::kUnknownParent: return "leads to " + object(finding.handle) + ", whose parent is unknown";
    default: return {};
  }
}

std::string of_object(const Finding& finding) {
  switch (finding.damage) {
    case Damage::kUnreadableRecord: return kind_of_record(finding.key) + " cannot be read";
    case Damage::kWrongLinkCount: return says_but(finding, "names");
    case Damage::kOrphanInode: return "has no name";
    case Damage::kWrongParent: return "has no name, but says it is in object " + std::to_string(finding.recorded);
    case Damage::kUnfinishedUnlink: return "was unlinked and is not open, but it is still there";
    case Damage::kDirectoryLoop: return "is a directory below itself: no path leads to it";
    case Damage::kWrongXattrCounts: return "counts its extended attributes wrong";
    case Damage::kUnknownTarget:
      return "lies in part on target " + std::to_string(finding.slot.target.value) + ", which no server has";
    case Damage::kHandleNotGiven: return "has a number that has not been given out yet";
    case Damage::kWrongOpenCount: return says_but(finding, "opens for writing");
    case Damage::kSizeNotAsked: return "has a size that is wrongly taken for known, or that nobody is going to ask";
    case Damage::kTruncateWithoutIntent: return "waits for a truncation that nobody is going to carry out";
    case Damage::kStrayOpen: return "is not there, but client " + std::to_string(finding.client.value) + " has it open";
    case Damage::kStrayIntent: return "has a truncate intent that its inode says nothing of";
    case Damage::kStrayUnsettled: return "has a note to ask its size, which is known, or it is not there";
    case Damage::kStrayXattr: return "is not there, but has extended attributes";
    case Damage::kStrayAnswer: return "has no session at the meta server, but answers are remembered for it";
    case Damage::kRemovalOfLiveFile: return "is there, but its datafiles are marked to be removed";
    case Damage::kStuckTruncate: return "has a truncation that should have been done by now";
    case Damage::kStuckSize: return "has a size that should have been asked of its datafiles by now";
    case Damage::kStuckRemoval: return "was removed, but its datafiles should have been removed by now, too";
    case Damage::kWrongSize:
      return "says it has " + std::to_string(finding.recorded) + " bytes, which does not fit the " +
             std::to_string(finding.actual) + " bytes of its datafile (" + datafile(finding) + ")";
    case Damage::kUnequalCopies:
      return "has a copy of " + std::to_string(finding.actual) + " bytes (" + datafile(finding) +
             "), but another one of " + std::to_string(finding.recorded) + " bytes";
    case Damage::kMissingCopy:
      return "has no copy at " + datafile(finding) + ", but another one of " + std::to_string(finding.recorded) +
             " bytes: the datafile is lost, it is not a hole";
    case Damage::kUnequalContents:
      return "has copies with different contents (" + datafile(finding) + ", bytes " +
             std::to_string(finding.recorded) + " to " + std::to_string(finding.recorded + finding.actual - 1) + ")";
    default: return {};
  }
}

}  // namespace

std::string subject(const Report& report) {
  const Finding& finding = report.finding;
  switch (finding.damage) {
    case Damage::kOrphanDatafile:
    case Damage::kMisplacedDatafile:
    case Damage::kDatafileNotGiven: return datafile(finding);
    case Damage::kStrayAnswer: return "client " + std::to_string(finding.client.value);
    default: break;
  }
  if (report.path.starts_with('/')) return "spate:" + printable(report.path);
  if (finding.directory && !finding.name.empty()) {
    return "entry \"" + printable(finding.name) + "\" of object " + std::to_string(finding.directory.value);
  }
  return object(finding.handle);
}

std::string complaint(const Report& report) {
  const Finding& finding = report.finding;
  switch (finding.damage) {
    case Damage::kOrphanDatafile:
      return "is a datafile of " + std::to_string(finding.actual) + " bytes whose file is gone";
    case Damage::kMisplacedDatafile:
      return "is a datafile of " + std::to_string(finding.actual) + " bytes that the layout of " +
             object(finding.handle) + " does not name";
    case Damage::kDatafileNotGiven:
      return "is a datafile of " + std::to_string(finding.actual) + " bytes of a file that was never made here";
    default: break;
  }
  std::string text = of_entry(finding);
  if (text.empty()) text = of_object(finding);
  return text.empty() ? "is damaged in a way that this program does not know" : text;
}

std::string_view remedy(Damage damage) {
  switch (damage) {
    case Damage::kDanglingEntry: return "removes the entry";
    case Damage::kMissingDirectory: return "makes the directory again, with its entries, mode 0700";
    case Damage::kWrongEntryType: return "enters the type that the object has";
    case Damage::kMisfiledEntry: return "puts the entry where its name is looked for";
    case Damage::kWrongDirectoryCounts: return "counts the entries";
    case Damage::kWrongLinkCount: return "sets the link count to the number of names";
    case Damage::kOrphanInode: return "gives it a name in spate:/lost+found";
    case Damage::kUnfinishedUnlink: return "removes it with its data, as was asked";
    case Damage::kWrongParent:
      return "sets the parent, or removes the entry when a directory has its name elsewhere, too";
    case Damage::kSecondName: return "removes this name";
    case Damage::kDirectoryLoop: return "moves it to spate:/lost+found, with everything below";
    case Damage::kWrongXattrCounts: return "counts them";
    case Damage::kWrongOpenCount: return "counts the opens";
    case Damage::kSizeNotAsked:
    case Damage::kWrongSize: return "asks the datafiles, which know";
    case Damage::kTruncateWithoutIntent: return "lets it be opened again, with the size that its datafiles have";
    case Damage::kStrayIntent: return "carries out the file's last truncation, drops an older one";
    case Damage::kStrayOpen:
    case Damage::kStrayUnsettled:
    case Damage::kStrayXattr:
    case Damage::kStrayAnswer: return "drops the record";
    case Damage::kRemovalOfLiveFile: return "keeps the file, drops its removal";
    case Damage::kStuckTruncate:
    case Damage::kStuckSize:
    case Damage::kStuckRemoval: return "tries at once, and names the obstacle";
    case Damage::kOrphanDatafile: return "removes the datafile";
    case Damage::kMissingCopy: return "copies it from the server that has it";
    case Damage::kUnequalCopies:
    case Damage::kUnequalContents: return "copies the other one, which --trust names, in its place";
    default: return {};
  }
}

}  // namespace spate::fsck
