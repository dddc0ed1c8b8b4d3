// Programs run one after the other, with SIGINT and SIGTERM passed on.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

namespace rtf::cli {

class ChildRunner {
 public:
  // Until the runner goes, SIGINT and SIGTERM end the running child instead of this process.
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  // Runs the program to its end; its exit code, or 128 + the signal that ended it.
  int run(const std::string& program, const std::vector<std::string>& arguments);
  // A signal to stop has come.
  bool stopped();

 private:
  sigset_t watched_, before_;
  bool stopped_ = false;
};

}  // namespace rtf::cli
