// SIGINT and SIGTERM ask a run to stop after its step; a second one ends the process at once. Free of torch.
#pragma once

namespace rtf::train {

class InterruptHandler {
 public:
  InterruptHandler();
  ~InterruptHandler();
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;

  // The signal that came, or 0.
  static int signal();
};

}  // namespace rtf::train
