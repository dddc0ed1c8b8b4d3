#include "rtf/state_space.h"

#include <gtest/gtest.h>

#include "random_filter.h"
#include "rtf/error.h"

namespace rtf {
namespace {

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
  EXPECT_EQ(system.D, (std::vector<double>{8}));
  EXPECT_THROW(to_state_space(tf, 2), Error);
}

TEST(StateSpace, OrderZeroIsAGain) {
  const StateSpace system = to_state_space(make_coefficients(1, 1, 0), 0);
  EXPECT_TRUE(system.A.empty() && system.B.empty() && system.C.empty());
  EXPECT_EQ(system.D, (std::vector<double>{1}));
}

TEST(StateSpace, ItsResponseIsTheKernel) {
  testing::RandomFilters random(1);
  for (std::size_t order : {1, 2, 7, 20}) {
    const TransferFunction tf = random.draw(6, 2, order);
    for (std::size_t channel : {0, 2, 3, 5}) {
      const StateSpace system = to_state_space(tf, channel);
      const auto expected = testing::reference_kernel(tf, channel, 60);
      std::vector<double> x = system.B, kernel = system.D;
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

TEST(StateSpace, NamesTheMatrixThatDoesNotFit) {
  const auto message = [](const StateSpace& system) -> std::string {
    try {
      validate(system, "convert");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  StateSpace system{2, 1, 1, {0, 1, 0, 0}, {1, 0}, {1, 1}, {0}};
  EXPECT_EQ(message(system), "");
  system.outputs = 2;
  EXPECT_EQ(message(system), "[rtf::convert] C has 2 values, expected (2, 2)");
  system.outputs = 0;
  EXPECT_EQ(message(system), "[rtf::convert] 1 inputs and 0 outputs; at least one of each is needed");
}

}  // namespace
}  // namespace rtf
