#include "rtf/executor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "random_filter.h"
#include "rtf/rtf.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}

// Counts what the program allocates, so that a test can show that the operations do not. Not inlined: the compiler
// would then see free() meet the standard new of code it has inlined elsewhere.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto multiple = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(multiple, (size + multiple) / multiple * multiple)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using rtf::testing::RandomFilters;

// Everything that a layer computes, with this many threads.
template <class T>
std::vector<T> everything(std::size_t threads) {
  const auto executor = rtf::make_thread_pool(threads);
  RandomFilters random(4);
  const std::size_t batch = 19, length = 123, channels = 37, order = 9;
  rtf::TrainedTransferFunction trained;
  static_cast<rtf::Coefficients&>(trained) = random.draw(channels, channels, order);
  trained.length = length;
  const rtf::TransferFunction tf = rtf::correct(trained);
  std::vector<T> u(batch * length * channels), y(u.size()), du(u.size()), k(channels * length), dk(k.size());
  for (T& value : u) value = static_cast<T>(random.normal());
  std::vector<double> da(trained.a.size()), db(trained.b.size()), dh(channels);
  std::vector<double> x0(batch * channels * order, 0.5), xf(x0.size());
  std::vector<T> all;
  const auto keep = [&](const auto& values) { all.insert(all.end(), values.begin(), values.end()); };

  const rtf::WrappedKernelPlan kernel_plan(channels, channels, order, length);
  const rtf::ConvolutionPlan<T> plan(batch, length, channels, length);
  std::vector<std::byte> workspace(
      std::max(kernel_plan.workspace_bytes(*executor), plan.vjp_workspace_bytes(*executor)));
  const auto view = [&](auto* data) { return rtf::channels_last(data, batch, length, channels); };
  const std::size_t before = allocations;
  rtf::wrapped_kernel<T>(kernel_plan, trained, k, workspace, *executor);
  rtf::convolve(plan, view(u.data()), k, view(y.data()), {}, workspace, *executor);
  rtf::convolve_vjp(plan, view(u.data()), k, view(y.data()), view(du.data()), dk, {}, workspace, *executor);
  rtf::wrapped_kernel_vjp<T>(kernel_plan, trained, dk, da, db, dh, workspace, *executor);
  EXPECT_EQ(allocations, before) << "an operation allocated";
  for (const auto& values : {y, du, k, dk}) keep(values);
  for (const auto& values : {da, db, dh}) keep(values);

  for (const auto method : {rtf::FilterMethod::recurrence, rtf::FilterMethod::fft, rtf::FilterMethod::block}) {
    const rtf::FilterPlan<T> filter_plan(tf, batch, length, {method, true, true, 50});
    std::vector<std::byte> space(filter_plan.workspace_bytes(*executor));
    const std::size_t start = allocations;
    rtf::filter(filter_plan, view(u.data()), view(y.data()), x0, xf, {}, space, *executor);
    EXPECT_EQ(allocations, start) << "filter allocated by method " << rtf::name(method);
    keep(y);
    keep(xf);
  }
  return all;
}

TEST(Executor, AMimoStepAllocatesNothing) {
  rtf::MimoTransferFunction tf;
  tf.inputs = 2;
  tf.outputs = 3;
  tf.order = 4;
  tf.a.assign(4, 0.1);
  tf.b.assign(24, 1.0);
  tf.h0.assign(6, 1.0);
  std::vector<double> u(10, 1.0), y(15), state(40, 0.0);
  const std::size_t before = allocations;
  rtf::step<double>(tf, u, state, y);
  EXPECT_EQ(allocations, before);
}

TEST(Executor, ThreadCountDoesNotChangeABit) {
  const auto one = everything<float>(1);
  for (const std::size_t threads : {2, 3, 5}) EXPECT_EQ(one, everything<float>(threads)) << threads;
  EXPECT_EQ(everything<double>(1), everything<double>(2));
}

TEST(Executor, RunsEveryTaskOnceAndNoWorkerTwiceAtOnce) {
  const auto executor = rtf::make_thread_pool(4);
  for (const std::size_t tasks : {0, 1, 3, 1000}) {
    std::vector<std::atomic<int>> ran(tasks), busy(executor->workers());
    rtf::parallel_for(*executor, tasks, [&](std::size_t task, std::size_t worker) {
      EXPECT_EQ(busy[worker]++, 0);
      ++ran[task];
      --busy[worker];
    });
    for (const auto& count : ran) EXPECT_EQ(count, 1);
  }
}

TEST(Executor, PassesExceptionsOn) {
  const auto executor = rtf::make_thread_pool(3);
  for (int i = 0; i < 20; ++i)
    EXPECT_THROW(rtf::parallel_for(*executor, 100,
                                   [](std::size_t task, std::size_t) {
                                     if (task % 7 == 3) throw rtf::Error(rtf::ErrorCode::argument, "test", "no");
                                   }),
                 rtf::Error);
}

// More threads than a process may have: an error, and the threads that did start are gone.
TEST(Executor, SaysWhenTheSystemHasNoMoreThreads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than the test leaves";
#endif
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit tight = before;
  tight.rlim_cur = std::size_t{2} << 30;
  if (setrlimit(RLIMIT_AS, &tight) != 0) GTEST_SKIP() << "the limit of the address space cannot be set";
  std::string message;
  try {
    rtf::make_thread_pool(4096);
  } catch (const rtf::Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_AS, &before);
  EXPECT_NE(message.find("of 4096 threads"), std::string::npos) << message;
}

TEST(Executor, OneSettingForTheWholeLibrary) {
  const std::size_t before = rtf::threads();
  rtf::set_threads(3);
  EXPECT_EQ(rtf::default_executor().workers(), 3u);
  rtf::set_threads(before);
  EXPECT_THROW(rtf::set_threads(0), rtf::Error);
}

// Callers on several threads share the pool and the cached transforms.
// A child of fork() has none of its parent's threads.
TEST(Executor, AChildOfForkHasAPoolOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow threads that start after a fork";
#endif
  const std::size_t before = rtf::threads();
  const auto count = [] {
    std::atomic<std::size_t> done = 0;
    rtf::parallel_for(rtf::default_executor(), 1000, [&](std::size_t, std::size_t) { ++done; });
    return done.load();
  };
  rtf::set_threads(3);
  ASSERT_EQ(count(), 1000u);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);  // a child that waits for threads that are not there ends by it
    ::_exit(count() == 1000 && rtf::threads() == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(count(), 1000u);
  rtf::set_threads(before);
}

TEST(Executor, IsSafeToCallFromSeveralThreads) {
  RandomFilters random(9);
  const rtf::TransferFunction tf = random.draw(6, 2, 5);
  const auto expected = rtf::exact_kernel(tf, 301, rtf::KernelMethod::newton);
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&, i] {
      for (std::size_t length = 290; length <= 301; ++length) {
        const auto k = rtf::exact_kernel(tf, length + (i % 2 ? 0 : 301 - length), rtf::KernelMethod::newton);
        if (i % 2 == 0 && k != expected) ++wrong;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
