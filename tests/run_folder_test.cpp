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
  config.model.init = "zero";  // the layer's default, which load_config() fills in
  config.train.batch = 7;
  return config;
}

RunFolder make(const std::string& path) {
  const RunFolder run = RunFolder::create(path);
  run.begin(copying());
  return run;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(RunFolder, IsMadeWithItsConfig) {
  TemporaryFolder folder;
  const RunFolder run = make(folder.file("deep/er/run/"));
  EXPECT_EQ(run.path(), folder.file("deep/er/run"));
  EXPECT_EQ(load_config(run.config()), copying());
  EXPECT_TRUE(std::filesystem::is_directory(run.checkpoints()));
  EXPECT_EQ(RunFolder::open(run.path()).latest(), folder.file("deep/er/run/checkpoints/latest.safetensors"));
}

TEST(RunFolder, ARunIsNotOverwritten) {
  TemporaryFolder folder;
  make(folder.file("run"));
  const std::string before = read_bytes(folder.file("run/config.yaml"));
  EXPECT_TRUE(holds(error_of([&] { make(folder.file("run")); }), "rtf train --resume"));
  EXPECT_EQ(read_bytes(folder.file("run/config.yaml")), before);
}

// Two processes may make the same folder; the one that gets the lock second finds a run.
TEST(RunFolder, OfTwoThatMakeItOneBegins) {
  TemporaryFolder folder;
  const RunFolder one = RunFolder::create(folder.file("run")), two = RunFolder::create(folder.file("run"));
  one.begin(copying());
  EXPECT_TRUE(holds(error_of([&] { two.begin(copying()); }), "already holds a run"));
}

TEST(RunFolder, FilesOfAnotherRunAreRefusedBeforeAnythingIsMade) {
  for (const char* left :
       {"metrics.csv", "status.json", "checkpoints/latest.safetensors", "checkpoints/best.safetensors"}) {
    TemporaryFolder folder;
    std::filesystem::create_directories(std::filesystem::path(folder.file(left)).parent_path());
    write_bytes(folder.file(left), "x");
    EXPECT_TRUE(holds(error_of([&] { RunFolder::create(folder.file("")); }), left));
    EXPECT_EQ(folder.file_count(), 1u);
  }
}

TEST(RunFolder, FoldersThatCannotBeAreNamed) {
  TemporaryFolder folder;
  write_bytes(folder.file("file"), "");
  EXPECT_TRUE(holds(error_of([&] { make(folder.file("file/run")); }), "file/run: Not a dir"));
  EXPECT_TRUE(holds(error_of([&] { make(""); }), "empty"));
  EXPECT_TRUE(holds(error_of([&] { RunFolder::open(folder.file("none")); }), "none is not a run folder"));
}

TEST(RunFolder, StatusComesBack) {
  TemporaryFolder folder;
  const RunFolder run = make(folder.file("run"));
  EXPECT_FALSE(read_status(run));
  const RunStatus status{RunState::finished, 120, 3, 12.5, "accuracy", 0.1, 120};
  write_status(run, status);
  EXPECT_EQ(read_status(run), status);
  write_status(run, {RunState::failed, 1, 0, 0, "loss", {}, 7});
  EXPECT_FALSE(read_status(run)->best);
  write_bytes(run.status(), R"({"state": "failed", "step": 3, "epoch": 0, "seconds": 1, "metric": "loss", "best": 2})");
  EXPECT_EQ(read_status(run)->steps, 0) << "of a run from before it was said";
  for (const char* bad : {"", "{}", "[]", "{\"state\": \"lost\"}", "{\"state\": 1}"}) {
    write_bytes(run.status(), bad);
    EXPECT_TRUE(holds(error_of([&] { read_status(run); }), "status.json")) << bad;
  }
}

TEST(RunFolder, OneProcessTrainsInIt) {
  TemporaryFolder folder;
  const RunFolder run = make(folder.file("run"));
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

TEST(RunFolder, DamagedFilesDoNotHideTheRest) {
  TemporaryFolder folder;
  const RunFolder run = make(folder.file("run"));
  EXPECT_EQ(summarize(run).state, "not begun");
  {
    RunLock lock(run);
    EXPECT_EQ(summarize(run).state, "running");
  }
  write_status(run, {RunState::failed, 1, 0, 0, "loss", {}, 7});
  EXPECT_EQ(summarize(run).state, "failed");
  EXPECT_EQ(summarize(run).damage, "");
  write_bytes(run.status(), "{");
  EXPECT_EQ(summarize(run).state, "unreadable");
  EXPECT_EQ(summarize(run).config, copying());
  EXPECT_TRUE(summarize(run).damage.starts_with(run.status())) << summarize(run).damage;
  write_bytes(run.config(), "{");
  EXPECT_FALSE(summarize(run).config);
  EXPECT_TRUE(holds(summarize(run).damage, "config.yaml")) << summarize(run).damage;
}

TEST(RunFolder, RunsAreFoundBelow) {
  TemporaryFolder folder;
  make(folder.file("b/run"));
  make(folder.file("a"));
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
