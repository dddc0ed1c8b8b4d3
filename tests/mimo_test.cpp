#include "rtf/mimo.h"

#include <gtest/gtest.h>

#include <limits>

#include "mimo_reference.h"

namespace {

using namespace rtf::testing;
using rtf::MimoTransferFunction;
using rtf::StateSpace;

TEST(Mimo, ExactKernelIsThePowersOfTheBlockCompanion) {
  RandomFilters random(61);
  for (int i = 0; i < 200; ++i) {
    const MimoCase at(random, 64, 1e12);
    SCOPED_TRACE(at.sizes());
    const LongValues expected = dense_kernel(to_block_companion(at.tf), at.length);
    for (const auto method : {rtf::KernelMethod::automatic, rtf::KernelMethod::division, rtf::KernelMethod::newton})
      EXPECT_LE(relative_error(exact_kernel(at.tf, at.length, method), expected), accuracy_bound(at.kappa, false));
    EXPECT_LE(relative_error(reference_response(ReferenceMimo<long double>(at.tf), at.length), expected), 1e-15);
  }
}

TEST(Mimo, WrappedKernelSolvesTheCirculantSystem) {
  RandomFilters random(62);
  for (int i = 0; i < 200; ++i) {
    const MimoCase at(random, 64, 1e12);
    SCOPED_TRACE(at.sizes());
    const auto expected = reference_wrapped(ReferenceMimo<long double>(at.tf), at.length);
    EXPECT_LE(relative_error(wrapped_kernel(at.trained()), expected), accuracy_bound(at.kappa, false));
  }
}

TEST(Mimo, CorrectionStreamsTheWrappedKernel) {
  RandomFilters random(63);
  for (int i = 0; i < 200; ++i) {
    const MimoCase at(random, 64, 1e12);
    SCOPED_TRACE(at.sizes());
    const double bound = accuracy_bound(at.kappa, false);
    const auto trained = at.trained();
    const MimoTransferFunction corrected = correct(trained);
    EXPECT_EQ(corrected.a, trained.a);
    EXPECT_LE(relative_error(dense_kernel(to_block_companion(corrected), at.length), wrapped_kernel(trained)), bound);
    const auto plain = reference_correction(ReferenceMimo<long double>(at.tf), at.length, true);
    EXPECT_LE(relative_error(corrected.b, plain.b), bound);
    EXPECT_LE(relative_error(corrected.h0, plain.h0), bound);

    const auto wrapped = wrap(at.tf, at.length);
    EXPECT_EQ(wrapped.length, at.length);
    EXPECT_LE(relative_error(wrapped_kernel(wrapped), exact_kernel(at.tf, at.length)), bound);
    const MimoTransferFunction back = correct(wrapped);
    LongValues all(at.tf.h0.begin(), at.tf.h0.end()), got(back.h0.begin(), back.h0.end());
    all.insert(all.end(), at.tf.b.begin(), at.tf.b.end());
    got.insert(got.end(), back.b.begin(), back.b.end());
    EXPECT_LE(relative_error(got, all), bound);
  }
}

TEST(Mimo, BlockCompanionMatrices) {
  MimoTransferFunction tf;
  tf.inputs = 2;
  tf.outputs = 1;
  tf.order = 2;
  tf.a = {0.5, -0.25};
  tf.b = {1, 2, 3, 4};
  tf.h0 = {5, 6};
  const StateSpace system = to_block_companion(tf);
  EXPECT_EQ(system.order, 4u);
  EXPECT_EQ(system.A, (Values{-0.5, 0, 0.25, 0, 0, -0.5, 0, 0.25, 1, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(system.B, (Values{1, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(system.C, (Values{1, 3, 2, 4}));
  EXPECT_EQ(system.D, (Values{5, 6}));
}

TEST(Mimo, BlockCompanionRoundTripsBitForBit) {
  RandomFilters random(68);
  for (int i = 0; i < 100; ++i) {
    const MimoCase at(random, 8, HUGE_VAL);
    const MimoTransferFunction back = from_block_companion(to_block_companion(at.tf));
    EXPECT_EQ(back.inputs, at.tf.inputs);
    EXPECT_EQ(back.outputs, at.tf.outputs);
    EXPECT_EQ(back.order, at.tf.order);
    EXPECT_EQ(back.a, at.tf.a);
    EXPECT_EQ(back.b, at.tf.b);
    EXPECT_EQ(back.h0, at.tf.h0);
  }
}

TEST(Mimo, NamesTheCoefficientsThatDoNotFit) {
  const auto after = [](const auto& change) {
    MimoTransferFunction tf = small_mimo();
    change(tf);
    return message([&] { validate(tf, "convert"); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(after([](auto&) {}), "");
  EXPECT_EQ(after([](auto& tf) { tf.inputs = 0; }),
            "[rtf::convert] 0 inputs and 2 outputs; at least one of each is needed");
  EXPECT_EQ(after([](auto& tf) { tf.a.push_back(1); }), "[rtf::convert] a has 3 values, expected (2)");
  EXPECT_EQ(after([](auto& tf) { tf.b.pop_back(); }), "[rtf::convert] b has 11 values, expected (2, 3, 2)");
  EXPECT_EQ(after([](auto& tf) { tf.h0.pop_back(); }), "[rtf::convert] h0 has 5 values, expected (2, 3)");
  EXPECT_EQ(after([&](auto& tf) { tf.a[1] = nan; }), "[rtf::convert] a[1] is nan; coefficients must be finite");
  EXPECT_EQ(after([&](auto& tf) { tf.b[9] = HUGE_VAL; }),
            "[rtf::convert] b[1][1][1] is inf; coefficients must be finite");
  EXPECT_EQ(after([&](auto& tf) { tf.h0[4] = nan; }), "[rtf::convert] h0[1][1] is nan; coefficients must be finite");
}

TEST(Mimo, RefusesWhatRoundingWouldDrown) {
  rtf::TrainedMimoTransferFunction trained;
  static_cast<rtf::MimoCoefficients&>(trained) = small_mimo();
  EXPECT_EQ(message([&] { wrapped_kernel(trained); }), "[rtf::wrapped_kernel] length is 0; it must be at least 1");
  trained.length = 1000;
  trained.a = {-2, 0};  // a pole at 2: bounded in Algorithm 1, not in a recurrence
  EXPECT_LT(wrapped_kernel(trained)[0], HUGE_VAL);
  EXPECT_EQ(message([&] { correct(trained); }).find("[rtf::correct] over 1000 samples the recurrence would"), 0u);
  EXPECT_EQ(message([&] { wrap(small_mimo(), 0); }), "[rtf::wrap] length is 0; it must be at least 1");
}

TEST(Mimo, RefusesAStateSpaceOfAnotherForm) {
  const StateSpace good = to_block_companion(small_mimo());
  const auto after = [&](const auto& change) {
    StateSpace system = good;
    change(system);
    return message([&] { from_block_companion(system); });
  };
  EXPECT_EQ(after([](auto&) {}), "");
  EXPECT_EQ(after([](auto& s) { s.A[7] = 0.5; }),
            "[rtf::from_block_companion] A[1][1] is 0.5 where block companion form has -0.5; convert the state space "
            "instead");
  EXPECT_EQ(after([](auto& s) { s.A[35] = 1e-300; }),
            "[rtf::from_block_companion] A[5][5] is 1e-300 where block companion form has 0; convert the state space "
            "instead");
  EXPECT_EQ(
      after([](auto& s) { s.B[17] = 2; }),
      "[rtf::from_block_companion] B[5][2] is 2 where block companion form has 0; convert the state space instead");
  EXPECT_EQ(message([] {
              rtf::from_block_companion({2, 3, 1, Values(4), Values(6), Values(2), Values(3)});
            }),
            "[rtf::from_block_companion] 2 states are no multiple of 3 inputs, as block companion form has them");
}

}  // namespace
