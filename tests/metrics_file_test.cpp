#include "train/metrics_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "temporary_folder.h"

namespace rtf::train {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

const std::vector<std::string> metrics = {"accuracy", "rmse"};

TEST(MetricsFile, RowsAreThereAtOnceAndKeepEveryBit) {
  TemporaryFolder folder;
  MetricsFile file(folder.file("m.csv"), metrics);
  EXPECT_EQ(read_bytes(folder.file("m.csv")), "step,epoch,split,loss,accuracy,rmse\n");
  file.row(20, 0, "train", 0.1);
  EXPECT_EQ(read_bytes(folder.file("m.csv")), "step,epoch,split,loss,accuracy,rmse\n20,0,train,0.1,,\n");
  const double third = 1.0 / 3, next = std::nextafter(1.0, 2.0);
  file.row(40, 1, "val", third, std::vector<double>{next, std::numeric_limits<double>::quiet_NaN()});
  const std::string bytes = read_bytes(folder.file("m.csv"));
  const std::string last = bytes.substr(bytes.find("40,1,val,"));
  std::size_t read = 0;
  EXPECT_EQ(std::stod(last.substr(9), &read), third);
  EXPECT_EQ(std::stod(last.substr(9 + read + 1)), next);
  EXPECT_TRUE(last.ends_with(",nan\n")) << last;
  const std::vector<double> one = {1};
  EXPECT_NE(error_of([&] { file.row(1, 1, "val", 1, one); }).find("1 metrics, expected 2"), std::string::npos);
}

TEST(MetricsFile, GoesOnAfterTheCheckpoint) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.csv");
  const std::vector<double> values = {0.5, 2};
  std::string whole;
  for (const int64_t resumed : {-1, 0, 20, 30, 40, 60, 100}) {
    std::filesystem::remove(path);
    const auto write = [&](MetricsFile& file, int64_t after) {
      for (const int64_t step : {20, 40, 60}) {
        if (step < after) continue;
        if (step > after) file.row(step, 0, "train", 1.0 / static_cast<double>(step));
        file.row(step, 0, "val", 0.25, values);  // evaluations may come after the checkpoint of their step
      }
    };
    {
      MetricsFile file(path, metrics);
      write(file, 0);
    }
    const std::string complete = read_bytes(path);
    if (resumed >= 0) {
      write_bytes(path, complete + "80,0,tr");  // killed in the middle of a row
      MetricsFile file(path, metrics, resumed);
      write(file, resumed);
    }
    EXPECT_EQ(read_bytes(path), complete) << resumed;
  }
}

TEST(MetricsFile, AMissingOrEmptyFileIsBegunAgain) {
  TemporaryFolder folder;
  for (const char* left : {"", "step,ep"}) {
    write_bytes(folder.file("m.csv"), left);
    MetricsFile file(folder.file("m.csv"), {}, 0);
    EXPECT_EQ(read_bytes(folder.file("m.csv")), "step,epoch,split,loss\n");
  }
  MetricsFile file(folder.file("new.csv"), {}, 10);
  EXPECT_EQ(read_bytes(folder.file("new.csv")), "step,epoch,split,loss\n");
}

TEST(MetricsFile, ComesBack) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.csv");
  MetricsFile file(path, metrics);
  EXPECT_TRUE(read_metrics(path).rows.empty());
  const double third = 1.0 / 3;
  file.row(20, 0, "train", third);
  file.row(40, 1, "val", 1e-300, std::vector<double>{-third, std::numeric_limits<double>::infinity()});
  const std::string whole = read_bytes(path);
  // Whatever part of the next line a reader finds, it does not count.
  for (const char* begun : {"", "6", "60,1,val,0.5,1", "60,1,val,0.5,1,2"}) {
    write_bytes(path, whole + begun);
    const RunMetrics read = read_metrics(path);
    EXPECT_EQ(read.names, metrics);
    ASSERT_EQ(read.rows.size(), 2u) << begun;
    EXPECT_EQ(read.rows[0].step, 20);
    EXPECT_EQ(read.rows[0].loss, third);
    EXPECT_TRUE(read.rows[0].metrics.empty());
    EXPECT_EQ(read.rows[1].epoch, 1);
    EXPECT_EQ(read.rows[1].split, "val");
    EXPECT_EQ(read.rows[1].loss, 1e-300);
    EXPECT_EQ(read.rows[1].metrics, (std::vector<double>{-third, std::numeric_limits<double>::infinity()}));
  }
  for (const char* bad :
       {"x\n", "60,1,val,0.5,1\n", "60,1,val,,1,2\n", "60,1,val,0.5,1,\n", "60,1,val,0.5,,1\n", "\n"}) {
    write_bytes(path, whole + bad);
    EXPECT_NE(error_of([&] { read_metrics(path); }).find("m.csv: line 4 is not a row of step,epoch,"),
              std::string::npos)
        << bad;
  }
  for (const char* bad : {"step,loss\n", "hello\n", "\n"}) {
    write_bytes(path, bad);
    EXPECT_NE(error_of([&] { read_metrics(path); }).find("has the columns"), std::string::npos) << bad;
  }
  for (const char* begun : {"", "step,ep"}) {
    write_bytes(path, begun);
    EXPECT_TRUE(read_metrics(path).rows.empty());
  }
}

TEST(MetricsFile, OtherFilesAreRefusedAndKept) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.csv");
  const auto expect = [&](const std::string& bytes, std::optional<int64_t> step, const std::string& part) {
    write_bytes(path, bytes);
    const std::string message = error_of([&] { MetricsFile(path, metrics, step); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(read_bytes(path), bytes);
  };
  expect("step,epoch,split,loss,accuracy,rmse\n", {}, "exists already");
  expect("step,epoch,split,loss\n", 5, "has the columns step,epoch,split,loss, expected step");
  expect("step,epoch,split,loss,accuracy,rmse\nx,0,val,1,,\n", 5, "line 2");
  expect("step,epoch,split,loss,accuracy,rmse\n1,0,val,1,,\n2,0\n", 5, "line 3");
  EXPECT_NE(error_of([&] { MetricsFile(folder.file("no/m.csv"), metrics); }).find("no/m.csv"), std::string::npos);
}

}  // namespace
}  // namespace rtf::train
