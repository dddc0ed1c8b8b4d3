#include "train/task.h"

namespace rtf::train {

const char* name(Split split) {
  switch (split) {
    case Split::train: return "train";
    case Split::val: return "val";
    default: return "test";
  }
}

}  // namespace rtf::train
