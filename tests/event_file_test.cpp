#include "train/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "temporary_folder.h"

// TensorBoard's own reader reads what WritesARun leaves in RTF_EVENT_FOLDER: tests/test_event_file.py.
namespace rtf::train {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;

TEST(EventFile, WritesARun) {
  TemporaryFolder own;
  const char* given = std::getenv("RTF_EVENT_FOLDER");
  const std::string folder = given ? given : own.file(".");
  {
    EventFile file(folder);
    file.text("config", 0, "  task: copying\n");
    for (int64_t step = 1; step <= 300; ++step) file.scalar("train/loss", step, 1.0 / static_cast<double>(step));
    file.scalar("val/accuracy", 300, std::numeric_limits<double>::quiet_NaN());
    file.scalar("train/loss", int64_t{1} << 40, -2.5);
  }
  {
    EventFile file(folder, 200);
    for (int64_t step = 201; step <= 220; ++step) file.scalar("train/loss", step, 7);
  }
}

TEST(EventFile, FramesAreTFRecords) {
  TemporaryFolder folder;
  EventFile file(folder.file("."));
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("."))) path = entry.path().string();
  // The first record, there from the start: length, its CRC, the event, the event's CRC.
  const std::string bytes = read_bytes(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(bytes.size(), 8 + 4 + length + 4);
  EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
  // Masked CRC-32C of the length 24 as eight bytes, computed by TensorBoard's own code.
  ASSERT_EQ(length, 24u);
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + 8, 4);
  EXPECT_EQ(crc, 0x224b7fa3u);
}

TEST(EventFile, LaterStartsHaveLaterNames) {
  TemporaryFolder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    EventFile file(folder.file("."));
    std::string last;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file("."))) {
      last = std::max(last, entry.path().filename().string());
    }
    names.push_back(last);
  }
  EXPECT_EQ(folder.file_count(), 3u);
  EXPECT_LT(names[0], names[1]);
  EXPECT_LT(names[1], names[2]);
  EXPECT_NE(error_of([&] { EventFile(folder.file("none")); }).find("none/events"), std::string::npos);
}

}  // namespace
}  // namespace rtf::train
