#include "train/run_folder.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace rtf::train {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

Config copying() {
  Config config;
  config.task.name = "copying";
  config.train.batch = 7;
  return config;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(RunFolder, IsMadeWithItsConfig) {
  TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.file("deep/er/run/"), copying());
  EXPECT_EQ(run.path(), folder.file("deep/er/run"));
  EXPECT_EQ(load_config(run.config()), copying());
  EXPECT_TRUE(std::filesystem::is_directory(run.checkpoints()));
  EXPECT_EQ(RunFolder::open(run.path()).latest(), folder.file("deep/er/run/checkpoints/latest.safetensors"));
}

TEST(RunFolder, ARunIsNotOverwritten) {
  TemporaryFolder folder;
  RunFolder::create(folder.file("run"), copying());
  const std::string before = read_bytes(folder.file("run/config.yaml"));
  EXPECT_TRUE(holds(error_of([&] { RunFolder::create(folder.file("run"), Config()); }), "rtf train --resume"));
  EXPECT_EQ(read_bytes(folder.file("run/config.yaml")), before);
}

TEST(RunFolder, FoldersThatCannotBeAreNamed) {
  TemporaryFolder folder;
  write_bytes(folder.file("file"), "");
  EXPECT_TRUE(holds(error_of([&] { RunFolder::create(folder.file("file/run"), copying()); }), "file/run: Not a dir"));
  EXPECT_TRUE(holds(error_of([&] { RunFolder::create("", copying()); }), "empty"));
  EXPECT_TRUE(holds(error_of([&] { RunFolder::open(folder.file("none")); }), "none is not a run folder"));
}

TEST(RunFolder, StatusComesBack) {
  TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.file("run"), copying());
  EXPECT_FALSE(read_status(run));
  const RunStatus status{RunState::finished, 120, 3, 12.5, "accuracy", 0.1};
  write_status(run, status);
  EXPECT_EQ(read_status(run), status);
  write_status(run, {RunState::failed, 1, 0, 0, "loss", {}});
  EXPECT_FALSE(read_status(run)->best);
  for (const char* bad : {"", "{}", "[]", "{\"state\": \"lost\"}", "{\"state\": 1}"}) {
    write_bytes(run.status(), bad);
    EXPECT_TRUE(holds(error_of([&] { read_status(run); }), "status.json")) << bad;
  }
}

TEST(RunFolder, OneProcessTrainsInIt) {
  TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.file("run"), copying());
  write_status(run, RunStatus());
  {
    RunLock lock(run);
    EXPECT_EQ(read_status(run)->state, RunState::running);
    EXPECT_TRUE(holds(error_of([&] { RunLock second(run); }), "another process"));
  }
  // Nobody is there any more, and nobody said good-bye: it was killed.
  EXPECT_EQ(read_status(run)->state, RunState::interrupted);
  RunLock again(run);
}

TEST(RunFolder, RunsAreFoundBelow) {
  TemporaryFolder folder;
  RunFolder::create(folder.file("b/run"), copying());
  RunFolder::create(folder.file("a"), copying());
  std::filesystem::create_directory(folder.file("empty"));
  const auto runs = find_runs(folder.file("."));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(runs[0].path().ends_with("/a"));
  EXPECT_TRUE(runs[1].path().ends_with("/b/run"));
  EXPECT_EQ(find_runs(folder.file("a")).size(), 1u);
  EXPECT_TRUE(holds(error_of([&] { find_runs(folder.file("none")); }), "none is not a folder"));
}

}  // namespace
}  // namespace rtf::train
