// SPDX-License-Identifier: Apache-2.0
// Makes manual pages from a program's help and from a C header.
#include <algorithm>
#include <cctype>

#include "tools/roff.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

constexpr std::string_view kUsage = "usage: ";
/// A line of a help text with this indentation continues the item above it.
constexpr std::size_t kContinuation = 10;

std::string_view without_indent(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

/// "Serves one server." -> "serves one server"
std::string summary_of(std::string_view text) {
  std::string all;
  for (const std::string& line : lines_of(text)) all += (all.empty() ? "" : " ") + line;
  const std::size_t end = std::min({all.find(". "), all.find(";"), all.size() - (all.ends_with('.') ? 1 : 0)});
  all.resize(end);
  if (!all.empty()) all.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(all.front())));
  return all;
}

/// The parts of a help text, in its order.
struct Help {
  struct Item {
    std::string term;
    std::string text;
  };
  std::string usage;
  std::string before;  // the lines before the items
  std::vector<Item> items;
  std::string after;
};

/// "  -f, --flag    text" and "  --a-long-option=NAME text": the offset of the text; npos: the line is no item.
std::size_t gap_of(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || begin == 0 || begin >= kContinuation) return std::string_view::npos;
  return line.find("  ", begin);
}

void take_line(Help& help, const std::string& name, const std::string& line) {
  if (line.starts_with(kUsage)) {
    help.usage = line.substr(kUsage.size());
  } else if (const std::size_t gap = gap_of(line); gap != std::string::npos) {
    help.items.push_back(
        {std::string(without_indent(line.substr(0, gap))), std::string(without_indent(line.substr(gap)))});
  } else if (line.starts_with("  ") && without_indent(line).starts_with('-')) {
    help.items.push_back({std::string(without_indent(line)), ""});
  } else if (line.starts_with(' ') && !help.items.empty()) {
    help.items.back().text += "\n" + std::string(without_indent(line));
  } else {
    std::string& part = help.items.empty() ? help.before : help.after;
    const std::string_view words =
        line.starts_with(name + ": ") ? std::string_view(line).substr(name.size() + 2) : line;
    part += (part.empty() ? "" : "\n") + std::string(words);
  }
}

/// "/* text */" over any number of lines -> the text alone.
std::string comment_text(const std::vector<std::string>& lines) {
  std::string text;
  for (std::string_view line : lines) {
    if (line.starts_with("/*")) line.remove_prefix(2);
    if (line.ends_with("*/")) line.remove_suffix(2);
    line = without_indent(line);
    if (line.starts_with('*')) line = without_indent(line.substr(1));
    while (line.ends_with(' ')) line.remove_suffix(1);
    if (!line.empty()) {
      text += (text.empty() || text.ends_with('\n') ? "" : " ") + std::string(line);
    } else if (!text.empty() && !text.ends_with('\n')) {
      text += "\n\n";  // an empty line of a comment ends a paragraph
    }
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// Writes comments and declarations in their order; a comment is held back until the declarations that it describes.
class HeaderWriter {
 public:
  explicit HeaderWriter(ManualPage& page) : page_(page) {}
  void comment(const std::string& text) {
    if (text.starts_with("SPDX-")) return;
    flush();
    constexpr std::string_view kMark = "---- ";
    const std::size_t end = text.find(" ----", kMark.size());
    if (text.starts_with(kMark) && end != std::string::npos) {
      page_.section(text.substr(kMark.size(), end - kMark.size()));
      if (const auto rest = without_indent(std::string_view(text).substr(end + kMark.size())); !rest.empty())
        page_.paragraph(rest);
    } else {
      comment_ = text;
    }
  }
  void code(std::string_view line) {
    constexpr std::string_view kExported = "SPATE_API ";
    if (line.starts_with(kExported)) line.remove_prefix(kExported.size());
    code_ += (code_.empty() ? "" : "\n") + std::string(line);
  }
  void flush() {
    if (!code_.empty()) page_.literal(code_);
    if (!comment_.empty()) page_.paragraph(comment_);
    code_.clear();
    comment_.clear();
  }

 private:
  ManualPage& page_;
  std::string comment_;
  std::string code_;
};

/// Calls `comment` with each comment that begins a line, and `code` with each other line, except the preprocessor's.
template <typename Comment, typename Code>
void read_header(std::string_view header, Comment comment, Code code) {
  std::vector<std::string> open;
  bool defines = false;  // inside a directive of several lines
  for (const std::string& line : lines_of(header)) {
    if (!open.empty() || line.starts_with("/*")) {
      open.push_back(line);
      if (!line.ends_with("*/")) continue;
      comment(comment_text(open));
      open.clear();
    } else if (defines || line.starts_with('#')) {
      defines = line.ends_with('\\');
    } else if (line != "extern \"C\" {" && line != "}") {
      code(line);
    }
  }
}

}  // namespace

ManualPage page_of_help(PageName name, std::string_view text) {
  Help help;
  for (const std::string& line : lines_of(text)) take_line(help, name.name, line);
  name.summary = summary_of(help.before);
  ManualPage page(std::move(name));
  page.section("SYNOPSIS");
  page.paragraph(help.usage);
  page.section("DESCRIPTION");
  page.paragraph(help.before);
  if (!help.items.empty()) page.section("OPTIONS");
  for (const Help::Item& item : help.items) page.item(item.term, item.text);
  if (!help.after.empty()) page.section("NOTES");
  if (!help.after.empty()) page.paragraph(help.after);
  return page;
}

ManualPage page_of_header(PageName name, std::string_view header) {
  ManualPage page(std::move(name));
  page.section("SYNOPSIS");
  page.literal("#include <" + page.name().name + ">");
  page.section("DESCRIPTION");
  HeaderWriter writer(page);
  read_header(
      header, [&](const std::string& comment) { writer.comment(comment); },
      [&](const std::string& line) {
        if (line.empty()) {
          writer.flush();
        } else {
          writer.code(line);
        }
      });
  writer.flush();
  return page;
}

std::vector<std::string> functions_of_header(std::string_view header, std::string_view prefix) {
  std::vector<std::string> names;
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  read_header(
      header, [](const std::string&) {},
      [&](std::string_view line) {
        const std::size_t end = line.find('(');
        if (end == std::string_view::npos || line.starts_with(' ')) return;
        std::size_t begin = end;
        while (begin > 0 && is_part(line[begin - 1])) --begin;
        if (line.substr(begin, end - begin).starts_with(prefix)) names.emplace_back(line.substr(begin, end - begin));
      });
  return names;
}

}  // namespace spate::tools
