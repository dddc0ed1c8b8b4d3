#include "child_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "rtf/error.h"

namespace rtf::cli {

// Blocked and waited for: no moment in which one gets lost.
ChildRunner::ChildRunner() {
  ::sigemptyset(&watched_);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&watched_, signal);
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored, children leave no exit code
}

ChildRunner::~ChildRunner() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

int ChildRunner::run(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw Error(ErrorCode::io, "command", "cannot start a process: " + std::generic_category().message(errno));
  }
  if (child == 0) {
    // Out of the terminal's group: a ^C reaches it once, through this process. It ends when this process is killed.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    const int signal = ::sigwaitinfo(&watched_, nullptr);
    if (signal == SIGINT || signal == SIGTERM) {
      stopped_ = true;
      ::kill(child, signal);
    }
  }
}

bool ChildRunner::stopped() {
  const timespec now{};
  int signal = 0;
  while ((signal = ::sigtimedwait(&watched_, nullptr, &now)) > 0) {
    if (signal == SIGINT || signal == SIGTERM) stopped_ = true;
  }
  return stopped_;
}

}  // namespace rtf::cli
