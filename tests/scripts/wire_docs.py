#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds docs/wire.md against the code: every operation with its number, every message and structure with its fields and
their types in their order, every enumeration and flag with its value.

  wire_docs.py ROOT           0 when they agree; else a line for each difference
  wire_docs.py ROOT --print   what the code says, in the form of the docs
"""
import pathlib
import re
import sys

PLAIN = {
    "std::uint8_t": "u8", "std::uint16_t": "u16", "std::uint32_t": "u32", "std::uint64_t": "u64", "std::int64_t": "i64",
    "bool": "flag", "std::string": "text", "Bytes": "blob", "WallTime": "time", "Errc": "u16", "Op": "u16",
    "Mac": "16 bytes", "Nonce": "16 bytes", "KeyId": "8 bytes", "Proof": "32 bytes", "Layout": "Layout", "ClusterMap": "cluster map",
    "DistributionSpec": "DistributionSpec", "DataGroup": "DataGroup", "datatype::Description": "Description",
}
SOURCES = ["model/attributes.h", "model/capability.h", "wire/header.h", "wire/session_messages.h", "wire/meta_messages.h", "wire/xattr_messages.h",
           "wire/cluster_messages.h", "wire/lock_messages.h", "wire/event_messages.h", "wire/lease_messages.h", "wire/batch_messages.h", "wire/queue_messages.h",
           "wire/mirror_messages.h", "wire/data_path.h", "wire/io_messages.h", "wire/copy_messages.h", "wire/bypass_messages.h", "wire/check_messages.h"]
ENUM_SOURCES = SOURCES + ["model/layout.h", "model/data_group.h", "model/lock_ranges.h", "base/error.h"]
# The lists in archive.cc and the structures that they belong to.
LISTS = {"attributes_fields": "Attributes", "capability_fields": "Capability", "ticket_fields": "SessionTicket"}
NOT_SENT = {"DirectoryHints"}


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def strong_ids(root):
    found = {}
    text = (root / "src/model/ids.h").read_text(encoding="utf-8")
    for name, rest in re.findall(r"using (\w+) = StrongId<struct \w+((?:, \S+)?)>;", text):
        found[name] = PLAIN[rest[2:]] if rest else "u64"
    return found


def enums(root):
    """Returns {name: (width, {enumerator: value})}. Widths of unscoped enumerations (flags) are included."""
    found = {}
    for source in ENUM_SOURCES:
        text = without_comments((root / "src" / source).read_text(encoding="utf-8"))
        lists = dict(re.findall(r"#define (SPATE_\w+)\(X\)((?:[^\n]*\\\n)*[^\n]*)", text))
        for name, width, body in re.findall(r"enum (?:class )?(\w+) : (std::uint\d+_t) \{(.*?)\};", text, re.S):
            if name in ("Op", "Feature"):
                continue
            values = {e: int(v) for e, v in re.findall(r"k(\w+) = (\d+)", body)}
            for macro, rows in lists.items():
                if macro + "(" in body:
                    values = {e: int(v) for e, v in re.findall(r"X\((\w+), (\d+)", rows)}
            found[name] = (PLAIN[width], values)
    return found


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def wire_type(cpp, ids, enum_names, structs):
    cpp = cpp.strip()
    match = re.fullmatch(r"std::(vector|optional)<(.*)>", cpp)
    if match:
        inner = wire_type(match[2], ids, enum_names, structs)
        return ("list" if match[1] == "vector" else "optional") + f"<{inner}>"
    if cpp in PLAIN:
        return PLAIN[cpp]
    if cpp in ids:
        return ids[cpp]
    if cpp in enum_names or cpp in structs:
        return cpp
    raise ValueError(f"type {cpp} is not known to wire_docs.py")


def struct_bodies(root):
    """Returns {name: text between its braces}, and the aliases of messages."""
    bodies, aliases = {}, {}
    for source in SOURCES:
        text = without_comments((root / "src" / source).read_text(encoding="utf-8"))
        for match in re.finditer(r"^struct (\w+) \{\n(.*?)^\};", text, re.S | re.M):
            bodies[match[1]] = match[2]
        aliases.update(re.findall(r"using (\w+(?:Request|Reply)) = (\w+);", text))
    return bodies, aliases


def order_of_fields(root, bodies):
    order = {}
    for name, body in bodies.items():
        match = re.search(r"void fields\(A&(?: a)?\) \{(?:\s*a\((.*?)\);\s*(?:if \([^;]*\) a\([^;]*\);\s*)?)?\}", body, re.S)
        if match:
            order[name] = [f.strip() for f in match[1].split(",")] if match[1] else []
    archive = (root / "src/wire/archive.cc").read_text(encoding="utf-8")
    for function, fields in re.findall(r"void (\w+_fields)\(A& a, T& v\) \{\s*a\((.*?)\);", archive, re.S):
        order[LISTS[function]] = [f.strip().removeprefix("v.") for f in fields.split(",")]
    credential = re.search(r"write\(const Credential& v\) \{ \(\*this\)\((.*?)\);", archive)
    order["Credential"] = [f.strip().removeprefix("v.") for f in credential[1].split(",")]
    return order


def structures(root):
    """Returns {name: [(field, wire type)]} from the code."""
    ids, enum_names = strong_ids(root), enums(root)
    bodies, aliases = struct_bodies(root)
    order = order_of_fields(root, bodies)
    found = {}
    for name, fields in order.items():
        members = {}
        flat = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\}", "", bodies[name]))
        for cpp, member in re.findall(r"^\s+((?:std::|datatype::)?\w+(?:<.*>)?)\s+(\w+)(?: = [^;]*)?;", flat, re.M):
            members[member] = cpp
        if name not in NOT_SENT:
            found[name] = [(f, wire_type(members[f], ids, enum_names, order)) for f in fields]
    return found, aliases


def operations(root):
    text = (root / "src/wire/op.h").read_text(encoding="utf-8")
    return {name: (int(number), enumerator) for enumerator, number, name in re.findall(r'X\((\w+), (\d+), (\w+)(?:, k\w+)?\)', text)}


def line_of_structure(name, fields):
    return f"{name}: " + (", ".join(f"{f} {t}" for f, t in fields) if fields else "nothing")


def line_of_enum(name, width, values):
    return f"{name} ({width}): " + ", ".join(f"{v} {snake(e)}" for e, v in values.items())


def said_by_code(root):
    found, aliases = structures(root)
    lines = {}
    for name, (number, enumerator) in operations(root).items():
        reply = f"{enumerator}Reply"
        lines["op " + name] = f"| {number} | {name} | {enumerator}Request | {aliases.get(reply, reply)} |"
    for name, fields in found.items():
        lines[name] = line_of_structure(name, fields)
    for name, (width, values) in enums(root).items():
        lines["enum " + name] = line_of_enum(name, width, values)
    return lines


def said_by_docs(root):
    """Returns the same lines from the docs. An indented line continues the block before it."""
    text = (root / "docs/wire.md").read_text(encoding="utf-8")
    joined = re.sub(r"\n {2,}", " ", text)
    lines = set()
    for line in joined.splitlines():
        row = re.match(r"(\| \d+ \| \w+ \| \w+Request \| \w+ \|)", line)
        lines.add(row[1] if row else line.split("  #")[0].rstrip())
    return lines


def main():
    root = pathlib.Path(sys.argv[1])
    code = said_by_code(root)
    if sys.argv[2:] == ["--print"]:
        print("\n".join(code.values()))
        return 0
    if len(code) < 100:
        print(f"only {len(code)} things found in the code: has its form changed?")
        return 1
    docs = said_by_docs(root)
    missing = [line for line in code.values() if line not in docs]
    for line in missing:
        print(f"docs/wire.md does not say: {line}")
    known = {line.split(":")[0].split(" (")[0] for line in code.values() if not line.startswith("|")}
    for line in docs:
        stale = re.match(r"([A-Z]\w+)(?: \(u\d+\))?: ", line)
        if stale and line not in code.values() and stale[1] in known:
            print(f"docs/wire.md says, and the code does not: {line}")
            missing.append(line)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
