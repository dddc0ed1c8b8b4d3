// A folder of its own for one test, removed afterwards, and small helpers around files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include "rtf/error.h"

namespace rtf::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rtf-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The message of the rtf::Error that `call` must throw.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// Reads thousands of damaged copies of `bytes`: each must be accepted or refused with rtf::Error, in one line.
inline void expect_survives_damage(const std::string& bytes, const std::string& path,
                                   const std::function<void(const std::string&)>& read, int rounds = 3000) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = bytes;
    if (below(3) == 0) damaged.resize(below(damaged.size()));
    if (below(8) == 0) damaged.insert(below(damaged.size() + 1), 1 + below(9), "0[{\x7f\xff "[below(6)]);
    for (std::size_t flips = below(4); flips > 0 && !damaged.empty(); --flips) {
      // Half of the hits go to the first bytes, where lengths and headers live.
      const std::size_t at = below(below(2) == 0 ? std::min<std::size_t>(damaged.size(), 128) : damaged.size());
      damaged[at] = static_cast<char>(below(2) == 0 ? damaged[at] ^ (1 << below(8)) : below(256));
    }
    write_bytes(path, damaged);
    try {
      read(path);
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).rfind("[rtf::read_", 0), 0u) << error.what();
    }
  }
  EXPECT_GT(refused, rounds / 10);
}

}  // namespace rtf::test
