// SPDX-License-Identifier: Apache-2.0
// ManualPage: a manual page in the language of man(7), and pages made of other texts. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spate::tools {

/// Escapes `text` so that troff prints it as it is: no line is a request, no character has a special meaning. Each line
/// of `text` stays a line of the source.
std::string roff_escaped(std::string_view text);

/// The file name and the heading of a page.
struct PageName {
  std::string name;     // "spate-ls"
  char section = '1';   // of the manual
  std::string summary;  // one line, without a full stop
  std::string date;     // "2026-11-23"
  std::string version;  // "0.1.0"
};

/// A page, written from beginning to end. A value.
class ManualPage {
 public:
  explicit ManualPage(PageName name);
  /// Begins a section. `title` is written as given: "OPTIONS".
  void section(std::string_view title);
  void subsection(std::string_view title);
  /// Keeps the lines of `text`, as far as they fit; lines that begin with a blank are kept unchanged.
  void paragraph(std::string_view text);
  /// `term` in bold, `text` indented below it, then the lines of `more`.
  void item(std::string_view term, std::string_view text, std::string_view more = {});
  /// Keeps the text line by line.
  void literal(std::string_view text);
  /// "spate(1), spated(8)"
  void see_also(const std::vector<std::string>& pages);

  const PageName& name() const { return name_; }
  /// "spate-ls.1"
  std::string file_name() const { return name_.name + "." + name_.section; }
  const std::string& text() const { return text_; }

 private:
  void begin_paragraph();

  PageName name_;
  std::string text_;
  bool after_heading_ = false;
};

/// The page of a program, made of its --help. A line "usage: ..." becomes the synopsis, the first sentence the summary,
/// "  -f, --flag    text" an item.
ManualPage page_of_help(PageName name, std::string_view help);

/// The page of a C header: its second comment is the description, "/* ---- Title ---- */" begins a section, and the
/// comment above a declaration is printed below it.
ManualPage page_of_header(PageName name, std::string_view header);
/// The functions that `header` declares and whose names have the prefix.
std::vector<std::string> functions_of_header(std::string_view header, std::string_view prefix);

}  // namespace spate::tools
