#include "rtf/transfer_function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "random_filter.h"
#include "rtf/error.h"

namespace rtf {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  tf.a[8] = kNan;
  EXPECT_EQ(message_of(tf), "[rtf::correct] a[1][3] is nan; coefficients must be finite");
  tf = make_coefficients(4, 2, 5);
  tf.b[15] = -kInfinity;
  EXPECT_EQ(message_of(tf, "wrap"), "[rtf::wrap] b[3][0] is -inf; coefficients must be finite");
  tf = make_coefficients(4, 2, 5);
  tf.h0[2] = kInfinity;
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

TEST(StateSpace, IsTheCompanionForm) {
  auto tf = make_coefficients(2, 1, 3);
  tf.a = {0.5, -0.25, 0.125};
  tf.b = {1, 2, 3, 4, 5, 6};
  tf.h0 = {7, 8};
  const StateSpace system = to_state_space(tf, 1);
  EXPECT_EQ(system.order, 3u);
  EXPECT_EQ(system.A, (std::vector<double>{-0.5, 0.25, -0.125, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(system.B, (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(system.C, (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(system.D, 8);
  EXPECT_THROW(to_state_space(tf, 2), Error);
}

TEST(StateSpace, OrderZeroIsAGain) {
  const StateSpace system = to_state_space(make_coefficients(1, 1, 0), 0);
  EXPECT_TRUE(system.A.empty() && system.B.empty() && system.C.empty());
  EXPECT_EQ(system.D, 1);
}

TEST(StateSpace, ItsResponseIsTheKernel) {
  testing::RandomFilters random(1);
  for (std::size_t order : {1, 2, 7, 20}) {
    const TransferFunction tf = random.draw(6, 2, order);
    for (std::size_t channel : {0, 2, 3, 5}) {
      const StateSpace system = to_state_space(tf, channel);
      const auto expected = testing::reference_kernel(tf, channel, 60);
      std::vector<double> x = system.B, kernel{system.D};
      while (kernel.size() < expected.size()) {
        double y = 0;
        std::vector<double> next(order, 0.0);
        for (std::size_t i = 0; i < order; ++i) {
          y += system.C[i] * x[i];
          for (std::size_t j = 0; j < order; ++j) next[i] += system.A[i * order + j] * x[j];
        }
        kernel.push_back(y);
        x = next;
      }
      EXPECT_LE(testing::relative_error(kernel, expected), 1e-12) << "order " << order << " channel " << channel;
    }
  }
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
