// A call that must be refused, with this in its message.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "rtf/error.h"

namespace rtf::testing {

void expect_refusal(const std::string& text, const auto& call) {
  try {
    call();
    FAIL() << "no error; expected " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace rtf::testing
