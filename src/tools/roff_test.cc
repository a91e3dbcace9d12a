// SPDX-License-Identifier: Apache-2.0
#include "tools/roff.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::tools {
namespace {

PageName name() { return {"x", '1', "does it", "2026-01-02", "1.2.3"}; }

/// The page's text behind its heading.
std::string body(const ManualPage& page) { return page.text().substr(page.text().find("does it\n") + 8); }

TEST(ToolsRoff, TextStaysAsItIs) {
  EXPECT_EQ(roff_escaped("a-b 'c' `d` ^~ \\n"), "a\\-b \\(aqc\\(aq \\(gad\\(ga \\(ha\\(ti \\(rsn");
}

TEST(ToolsRoff, LinesThatLookLikeRequestsAreEscaped) {
  EXPECT_EQ(roff_escaped(".SH a\n.b.\n'c"), "\\&.SH a\n\\&.b.\n\\(aqc");
}

TEST(ToolsRoff, AnArgumentMayHoldQuotationMarks) {
  ManualPage page(name());
  page.item("--at \"x y\"", "text");
  EXPECT_EQ(body(page), ".TP\n.B \"\\-\\-at \"\"x y\"\"\"\ntext\n");
}

TEST(ToolsRoff, IndentedLinesAreKept) {
  ManualPage page(name());
  page.paragraph("one\ntwo\n  three\nfour");
  EXPECT_EQ(body(page), ".PP\none\n.br\ntwo\n.nf\n  three\n.fi\nfour\n");
}

TEST(ToolsRoff, HelpBecomesAPage) {
  const ManualPage page = page_of_help({"x", '8', "", "2026-01-02", "1.2.3"},
                                       "usage: x [-f] FILE\n"
                                       "Does it, at once. SIGHUP stops it.\n"
                                       "\n"
                                       "  -f, --force    also when\n"
                                       "                 it should not\n"
                                       "      --long=A\n"
                                       "\n"
                                       "Ends with 0.\n");
  EXPECT_EQ(page.name().summary, "does it, at once");
  EXPECT_THAT(page.text(), testing::HasSubstr(".SH \"SYNOPSIS\"\nx [\\-f] FILE\n"));
  EXPECT_THAT(page.text(), testing::HasSubstr(".B \"\\-f, \\-\\-force\"\nalso when\nit should not\n"));
  EXPECT_THAT(page.text(), testing::HasSubstr(".B \"\\-\\-long=A\"\n\\&\n"));
  EXPECT_THAT(page.text(), testing::HasSubstr(".SH \"NOTES\"\n"));
}

constexpr const char* kHeader =
    "/* SPDX-License-Identifier: none */\n"
    "/* About it.\n"
    " *\n"
    " * More. */\n"
    "#define A \\\n"
    "  1\n"
    "extern \"C\" {\n"
    "/* ---- Calls ---- All return. */\n"
    "\n"
    "/* Opens\n"
    " * it. */\n"
    "SPATE_API int spate_open(const char* path,\n"
    "                         int flags);\n"
    "/* Closes it. */\n"
    "SPATE_API int spate_close(int file);\n"
    "}\n";

TEST(ToolsRoff, AHeaderBecomesAPage) {
  EXPECT_EQ(body(page_of_header(name(), kHeader)),
            ".SH \"SYNOPSIS\"\n.nf\n#include <x>\n.fi\n.SH \"DESCRIPTION\"\nAbout it.\n.PP\nMore.\n"
            ".SH \"Calls\"\nAll return.\n"
            ".PP\n.nf\nint spate_open(const char* path,\n                         int flags);\n.fi\n.PP\nOpens it.\n"
            ".PP\n.nf\nint spate_close(int file);\n.fi\n.PP\nCloses it.\n");
}

TEST(ToolsRoff, TheFunctionsOfAHeaderAreFound) {
  EXPECT_THAT(functions_of_header(kHeader, "spate_"), testing::ElementsAre("spate_open", "spate_close"));
}

}  // namespace
}  // namespace spate::tools
