#include "rtf/transfer_function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "random_filter.h"
#include "rtf/error.h"

namespace rtf {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::string message_of(const Coefficients& coefficients, const char* operation = "correct") {
  try {
    validate(coefficients, operation);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::argument);
    return error.what();
  }
  return "";
}

TEST(Validate, AcceptsWhatIsWhole) {
  EXPECT_EQ(message_of(make_coefficients(1, 1, 0)), "");
  EXPECT_EQ(message_of(make_coefficients(6, 3, 5)), "");
  EXPECT_EQ(message_of(make_coefficients<TrainedTransferFunction>(6, 6, 1)), "");
}

TEST(Validate, NamesTheOperationAndTheValue) {
  auto tf = make_coefficients(4, 2, 5);
  tf.a[8] = not_a_number;
  EXPECT_EQ(message_of(tf), "[rtf::correct] a[1][3] is nan; coefficients must be finite");
  tf = make_coefficients(4, 2, 5);
  tf.b[15] = -infinity;
  EXPECT_EQ(message_of(tf, "wrap"), "[rtf::wrap] b[3][0] is -inf; coefficients must be finite");
  tf = make_coefficients(4, 2, 5);
  tf.h0[2] = infinity;
  EXPECT_EQ(message_of(tf), "[rtf::correct] h0[2] is inf; coefficients must be finite");
}

TEST(Validate, RefusesShapes) {
  EXPECT_EQ(message_of(make_coefficients(4, 3, 2)), "[rtf::correct] 3 groups do not divide 4 channels");
  EXPECT_EQ(message_of(make_coefficients(0, 1, 2)), "[rtf::correct] channels is 0; at least 1 is needed");
  EXPECT_EQ(message_of(make_coefficients(1, 0, 2)), "[rtf::correct] groups is 0; at least 1 is needed");
  auto tf = make_coefficients(4, 2, 3);
  tf.a.pop_back();
  EXPECT_EQ(message_of(tf), "[rtf::correct] a has 5 values, expected (2, 3)");
  tf = make_coefficients(4, 2, 3);
  tf.b.resize(15);
  EXPECT_EQ(message_of(tf), "[rtf::correct] b has 15 values, expected (4, 3)");
  tf = make_coefficients(4, 2, 3);
  tf.h0.resize(2);
  EXPECT_EQ(message_of(tf), "[rtf::correct] h0 has 2 values, expected (4)");
  // Sizes whose product wraps around to the number of values there are.
  tf = make_coefficients(4, 4, 0);
  tf.order = std::size_t{1} << (std::numeric_limits<std::size_t>::digits - 2);
  EXPECT_NE(message_of(tf), "");
}

// The two references of the other tests agree with each other.
TEST(References, FilterOfAnImpulseIsTheKernel) {
  testing::RandomFilters random(2);
  for (std::size_t order : {0, 1, 5, 40}) {
    const TransferFunction tf = random.draw(2, 1, order);
    std::vector<double> impulse(100, 0.0);
    impulse[0] = 1;
    const auto kernel = testing::reference_kernel(tf, 1, impulse.size());
    const auto whole = testing::reference_filter<double>(tf, 1, impulse);
    EXPECT_LE(testing::relative_error(whole.y, kernel), 1e-15);
    EXPECT_EQ(whole.state.size(), order);

    // Cut anywhere, the state carries the rest (in double here, hence the tolerance).
    const std::span<const double> u(impulse);
    const auto first = testing::reference_filter<double>(tf, 1, u.first(3));
    const std::vector<double> middle(first.state.begin(), first.state.end());
    const auto second = testing::reference_filter<double>(tf, 1, u.subspan(3), middle);
    const std::vector<long double> rest(kernel.begin() + 3, kernel.end());
    EXPECT_LE(testing::relative_error(second.y, rest), 1e-12);
    EXPECT_LE(testing::relative_error(second.state, whole.state), 1e-12);
  }
}

}  // namespace
}  // namespace rtf
