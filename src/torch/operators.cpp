#include "rtf_torch/operators.h"
