#include "train/interrupt.h"

#include <csignal>

namespace rtf::train {
namespace {

volatile std::sig_atomic_t came = 0;

void remember(int signal) { came = signal; }

}  // namespace

InterruptHandler::InterruptHandler() {
  came = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  // SA_RESETHAND: the second signal has its default effect. SA_RESTART: the first one breaks no write.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

InterruptHandler::~InterruptHandler() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int InterruptHandler::signal() { return came; }

}  // namespace rtf::train
