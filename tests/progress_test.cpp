#include "train/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "temporary_folder.h"
#include "train/table.h"

namespace rtf::train {
namespace {

using namespace std::chrono_literals;
using test::read_bytes;
using test::TemporaryFolder;

ProgressState state() {
  ProgressState s;
  s.epoch = 2;
  s.epochs = 50;
  s.step = 250;
  s.steps = 1000;
  s.loss = 0.123456;
  s.metric = "accuracy";
  s.value = 0.5;
  return s;
}

TEST(Progress, SaysAllThereIsRoomFor) {
  EXPECT_EQ(
      progress_text(state(), 2.5, 120),
      "epoch 2/50  step 250/1000  2.5 it/s  loss 0.1235  accuracy 0.5  5:00 left  [#######.......................]");
  for (std::size_t width = 1; width < 120; ++width) EXPECT_LE(display_width(progress_text(state(), 2.5, width)), width);
  EXPECT_EQ(progress_text(state(), 2.5, 30), "step 250/1000  loss 0.1235");
  ProgressState first;
  first.epoch = first.epochs = 1;
  first.steps = 10;
  EXPECT_EQ(progress_text(first, 0, 40), "epoch 1/1  step 0/10  [................]");
  first.steps = 0;
  EXPECT_EQ(progress_text(first, 0, 60), "epoch 1/1  step 0/0");
}

TEST(Progress, AFileGetsNoBar) {
  TemporaryFolder folder;
  std::FILE* out = std::fopen(folder.file("log").c_str(), "w");
  {
    Progress progress(out);
    for (int i = 0; i < 1000; ++i) progress.update(state());
    progress.say("a line");
  }
  std::fclose(out);
  EXPECT_EQ(read_bytes(folder.file("log")), "a line\n");
}

TEST(Progress, ATerminalIsRedrawnTenTimesASecond) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  std::FILE* out = std::fopen(::ptsname(master), "w");
  ASSERT_TRUE(out);
  const struct winsize size { 24, 60, 0, 0 };
  ::ioctl(master, TIOCSWINSZ, &size);
  const auto begin = std::chrono::steady_clock::now();
  {
    Progress progress(out);
    ProgressState s = state();
    while (std::chrono::steady_clock::now() - begin < 450ms) {
      ++s.step;
      progress.update(s);
      std::this_thread::sleep_for(1ms);
    }
    progress.say("a line");
    std::this_thread::sleep_for(110ms);
    progress.update(s);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::fclose(out);
  std::string text;
  std::array<char, 4096> part;
  // To the end, which reads as an error.
  for (ssize_t got; (got = ::read(master, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(master);
  std::size_t draws = 0;
  for (std::size_t at = 0; (at = text.find('\r', at)) != std::string::npos; ++at) {
    const std::string line = text.substr(at + 1, text.find('\x1b', at) - at - 1);
    if (line.find("step") == std::string::npos || line[0] == '\n') continue;
    ++draws;
    EXPECT_LT(line.size(), 60u) << line;
  }
  EXPECT_GE(draws, 2u);
  EXPECT_LE(static_cast<double>(draws), seconds.count() / 0.1 + 2);  // and the last, when it ends
  EXPECT_NE(text.find("\x1b[Ka line\r\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\x1b[K\r\n")) << text;
}

}  // namespace
}  // namespace rtf::train
