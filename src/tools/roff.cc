// SPDX-License-Identifier: Apache-2.0
#include "tools/roff.h"

#include <algorithm>
#include <cctype>

#include "tools/text.h"

namespace spate::tools {
namespace {

/// The escape for a character that troff prints differently: quotation marks, a hyphen for a minus, accents.
std::string_view escape_of(char c) {
  switch (c) {
    case '\\': return "\\(rs";
    case '-': return "\\-";
    case '\'': return "\\(aq";
    case '`': return "\\(ga";
    case '^': return "\\(ha";
    case '~': return "\\(ti";
    default: return {};
  }
}

std::string upper(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return all;
}

/// An argument of a request: in quotation marks, with inner ones doubled.
std::string in_quotes(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) all += c == '"' ? "\"\"" : std::string(1, c);
  return roff_escaped(all + "\"");
}

}  // namespace

std::string roff_escaped(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    // A full stop or a quotation mark at the beginning would make the line a request. Other code escapes the quotation
    // mark anyway.
    if (begins_line && c == '.') out += "\\&";
    const std::string_view escape = escape_of(c);
    if (escape.empty()) {
      out += c;
    } else {
      out += escape;
    }
    begins_line = c == '\n';
  }
  return out;
}

ManualPage::ManualPage(PageName name) : name_(std::move(name)) {
  text_ = ".TH " + in_quotes(upper(name_.name)) + " " + name_.section + " \"" + name_.date + "\" " +
          in_quotes("Spate " + name_.version) + " \"Spate Manual\"\n.nh\n.ad l\n.SH NAME\n" + roff_escaped(name_.name) +
          " \\- " + roff_escaped(name_.summary) + "\n";
}

void ManualPage::section(std::string_view title) {
  text_ += ".SH " + in_quotes(title) + "\n";
  after_heading_ = true;
}

void ManualPage::subsection(std::string_view title) {
  text_ += ".SS " + in_quotes(title) + "\n";
  after_heading_ = true;
}

/// Does nothing directly after a heading, which begins a paragraph.
void ManualPage::begin_paragraph() {
  if (!after_heading_) text_ += ".PP\n";
  after_heading_ = false;
}

void ManualPage::paragraph(std::string_view text) {
  begin_paragraph();
  bool literal = false;
  bool first = true;
  for (const std::string& line : lines_of(text)) {
    if (line.empty()) {
      text_ += literal ? ".fi\n.PP\n" : ".PP\n";
      literal = false;
      first = true;
      continue;
    }
    const bool indented = line.front() == ' ';
    if (indented != literal) {
      text_ += indented ? ".nf\n" : ".fi\n";
    } else if (!literal && !first) {
      text_ += ".br\n";
    }
    literal = indented;
    first = false;
    text_ += roff_escaped(line) + "\n";
  }
  if (literal) text_ += ".fi\n";
}

void ManualPage::item(std::string_view term, std::string_view text, std::string_view more) {
  after_heading_ = false;
  text_ += ".TP\n.B " + in_quotes(term) + "\n" + (text.empty() ? "\\&" : roff_escaped(text)) + "\n";
  for (const std::string& line : lines_of(more)) text_ += ".br\n" + roff_escaped(line) + "\n";
}

void ManualPage::literal(std::string_view text) {
  begin_paragraph();
  text_ += ".nf\n" + roff_escaped(text) + "\n.fi\n";
}

void ManualPage::see_also(const std::vector<std::string>& pages) {
  section("SEE ALSO");
  std::string list;
  for (const std::string& page : pages) list += (list.empty() ? "" : ", ") + page;
  paragraph(list);
}

}  // namespace spate::tools
