#include "train/table.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace rtf::train {
namespace {

TEST(Table, NumbersRightTextLeft) {
  Table table({"n", "name", "best"});
  table.row({"64", "\xc3\xa9t\xc3\xa9", "0.5"});
  table.row({"1024", "winter", ""});
  EXPECT_EQ(table.text(),
            "   n  name    best\n"
            "  64  \xc3\xa9t\xc3\xa9      0.5\n"
            "1024  winter\n");
  EXPECT_NE(test::error_of([&] { table.row({"1"}); }).find("1 cells, expected 3"), std::string::npos);
}

TEST(Table, Markdown) {
  Table table({"n", "name", "best", "steps"});
  table.row({"64", "a|b", "0.5 \u00b1 0.25", "50 / 60"});
  table.row({"1024", "winter", "", "7"});
  EXPECT_EQ(table.markdown(),
            "|    n | name   |       best |   steps |\n"
            "| ---: | ------ | ---------: | ------: |\n"
            "|   64 | a\\|b   | 0.5 \u00b1 0.25 | 50 / 60 |\n"
            "| 1024 | winter |            |       7 |\n");
}

TEST(Table, Durations) {
  EXPECT_EQ(duration_text(5.6), "6 s");
  EXPECT_EQ(duration_text(59.7), "1:00");
  EXPECT_EQ(duration_text(200), "3:20");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(1e300), "?");
}

}  // namespace
}  // namespace rtf::train
