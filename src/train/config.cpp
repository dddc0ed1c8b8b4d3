#include "train/config.h"
