// After load, step, process and prefill neither allocate nor lock nor call the system: allocations and locks are
// counted by functions of those names in this program, and the kernel ends a child that calls it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "core/safetensors_bytes.h"
#include "random_model.h"
#include "rtf.h"
#include "rtf/stream.h"
#include "stream/model_tensors.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have functions of these names themselves

namespace {

// Of this thread: those of a pool, which loading a model may have used, go to sleep when they like.
constinit thread_local long allocations = 0, locks = 0;

// The system's function of this name, looked up when it is first called: made without a guard, which is counted too.
template <class Function>
struct Next {
  constexpr explicit Next(const char* name_) : name(name_) {}
  template <class... Args>
  int operator()(Args... args) {
    if (found == nullptr) found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    return found(args...);
  }
  const char* name;
  Function* found = nullptr;
};

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  ++allocations;
  return (*memory = __libc_memalign(alignment, size)) != nullptr ? 0 : 12;
}
void free(void* memory) {
  ++allocations;
  __libc_free(memory);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static constinit Next<int(pthread_mutex_t*)> real("pthread_mutex_lock");
  ++locks;
  return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static constinit Next<int(pthread_mutex_t*)> real("pthread_mutex_trylock");
  ++locks;
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static constinit Next<int(pthread_rwlock_t*)> real("pthread_rwlock_rdlock");
  ++locks;
  return real(lock);
}
int pthread_once(pthread_once_t* control, void (*routine)()) {
  static constinit Next<int(pthread_once_t*, void (*)())> real("pthread_once");
  ++locks;
  return real(control, routine);
}
// Asked for when a static variable of a function may have to be made; once it is there it is not.
int __cxa_guard_acquire(std::int64_t* guard) {
  static constinit Next<int(std::int64_t*)> real("__cxa_guard_acquire");
  ++locks;
  return real(guard);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static constinit Next<int(pthread_rwlock_t*)> real("pthread_rwlock_wrlock");
  ++locks;
  return real(lock);
}
}

namespace rtf::stream {
namespace {

using testing::RandomModels;

struct Counts {
  long allocations, locks;
};
Counts counted(const auto& work) {
  const long allocations_before = allocations, locks_before = locks;
  work();
  return {allocations - allocations_before, locks - locks_before};
}

// The signal that ends a child which may make no system call but exit_group from `work` on; 0 when it lives.
int signal_of_silent(const auto& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const sock_fprog program{4, instructions};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      ::_exit(77);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 77) << "this kernel has no filters of system calls";
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(StreamQuiet, TheCountersCount) {
  const auto allocate = [] {
    const auto made = std::make_unique<std::vector<int>>(100);
    asm volatile("" : : "r"(made->data()) : "memory");  // not to be left out
  };
  EXPECT_GE(counted(allocate).allocations, 4);
  std::mutex mutex;
  EXPECT_EQ(counted([&] { const std::lock_guard guard(mutex); }).locks, 1);
  EXPECT_EQ(signal_of_silent([] { ::getppid(); }), SIGSYS);
  EXPECT_EQ(signal_of_silent([] {}), 0);
}

template <class T>
void expect_quiet(std::uint64_t seed) {
  RandomModels random(seed);
  for (int round = 0; round < 40; ++round) {
    const Architecture a = random.architecture();
    ModelFile file = random.model(a, std::is_same_v<T, float> ? DataType::f32 : DataType::f64);
    if (std::is_same_v<T, float> && round % 4 == 1) round_weights(file, DataType::bf16);
    if (std::is_same_v<T, float> && round % 4 == 3) round_weights(file, DataType::int8);
    const Model<T> model(file);
    Streams<T> streams(model, 3);
    const std::size_t ids[] = {streams.join(), streams.join()};
    constexpr std::size_t length = 37;
    const std::size_t outputs = a.decoder == Architecture::Decoder::pair ? 0 : a.outputs;
    const std::vector<T> in(2 * length * a.features, T(0.5));
    const std::vector<std::int64_t> tokens(2 * length, 0);
    std::vector<T> out(2 * length * a.outputs);
    std::vector<std::byte> saved(model.state_bytes());
    Model<T> next = model;
    Sequences<T> sequences(model, length);
    const bool once = a.decoder == Architecture::Decoder::pool || a.decoder == Architecture::Decoder::pair;
    const auto whole =
        channels_last(out.data(), a.decoder == Architecture::Decoder::pair ? 1 : 2, once ? 1 : length, a.outputs);
    const auto all = [&] {
      const auto to = channels_last(out.data(), 2, length, outputs);
      const auto answer = std::span(out).first(2 * outputs);
      if (a.vocabulary > 0) {
        streams.step(ids, std::span(tokens).first(2), answer);
        streams.process(ids, channels_last(tokens.data(), 2, length, 1), to);
        streams.prefill(ids, channels_last(tokens.data(), 2, length, 1));
        sequences.process(channels_last(tokens.data(), 2, length, 1), whole);
      } else {
        streams.step(ids, std::span(in).first(2 * a.features), answer);
        streams.process(ids, channels_last(in.data(), 2, length, a.features), to);
        streams.prefill(ids, channels_last(in.data(), 2, length, a.features));
        sequences.process(channels_last(in.data(), 2, length, a.features), whole);
      }
      if (a.decoder == Architecture::Decoder::pool) streams.answer(ids[0], std::span(out).first(outputs));
      if (a.decoder == Architecture::Decoder::pair)
        streams.answer_pair(ids[0], ids[1], std::span(out).first(a.outputs));
      streams.save(ids[0], saved);
      streams.restore(ids[1], saved);
      streams.leave(streams.fork(ids[0]));
      // Both models run while one fades into the other; the last call counts its end too.
      next = streams.swap(std::move(next), length + 2);
      for (int part = 0; part < 2; ++part) {
        if (a.vocabulary > 0) {
          streams.step(ids, std::span(tokens).first(2), answer);
          streams.process(ids, channels_last(tokens.data(), 2, length, 1), to);
          streams.prefill(ids, channels_last(tokens.data(), 2, length, 1));
        } else {
          streams.step(ids, std::span(in).first(2 * a.features), answer);
          streams.process(ids, channels_last(in.data(), 2, length, a.features), to);
          streams.prefill(ids, channels_last(in.data(), 2, length, a.features));
        }
      }
      next = streams.swap(std::move(next), 0);
      streams.reset(ids[0]);
    };
    const Counts counts = counted(all);
    EXPECT_EQ(counts.allocations, 0);
    EXPECT_EQ(counts.locks, 0);
    EXPECT_EQ(signal_of_silent(all), 0);
  }
}

// The functions of rtf.h by the type of their samples.
template <class T>
struct C;
template <>
struct C<float> {
  static constexpr rtf_precision precision = RTF_F32;
  static constexpr auto step = rtf_stream_step_f32, process = rtf_stream_process_f32;
  static constexpr auto step_tokens = rtf_stream_step_tokens_f32, process_tokens = rtf_stream_process_tokens_f32;
  static constexpr auto prefill = rtf_stream_prefill_f32, answer = rtf_stream_answer_f32;
  static constexpr auto answer_pair = rtf_stream_answer_pair_f32;
  static constexpr auto whole = rtf_sequences_process_f32;
  static constexpr auto whole_tokens = rtf_sequences_process_tokens_f32;
};
template <>
struct C<double> {
  static constexpr rtf_precision precision = RTF_F64;
  static constexpr auto step = rtf_stream_step_f64, process = rtf_stream_process_f64;
  static constexpr auto step_tokens = rtf_stream_step_tokens_f64, process_tokens = rtf_stream_process_tokens_f64;
  static constexpr auto prefill = rtf_stream_prefill_f64, answer = rtf_stream_answer_f64;
  static constexpr auto answer_pair = rtf_stream_answer_pair_f64;
  static constexpr auto whole = rtf_sequences_process_f64;
  static constexpr auto whole_tokens = rtf_sequences_process_tokens_f64;
};

template <class T>
void expect_quiet_through_c(std::uint64_t seed) {
  RandomModels random(seed);
  for (int round = 0; round < 40; ++round) {
    const Architecture a = random.architecture();
    const ModelFile file = random.model(a, std::is_same_v<T, float> ? DataType::f32 : DataType::f64);
    const std::string bytes = safetensors_bytes(from_model(file), "model");
    rtf_model* model = nullptr;
    rtf_streams* streams = nullptr;
    rtf_sequences* sequences = nullptr;
    rtf_model_info info;
    std::size_t ids[2] = {};
    bool good = rtf_model_load_bytes(bytes.data(), bytes.size(), C<T>::precision, &model) == RTF_OK &&
                rtf_model_describe(model, &info) == RTF_OK && rtf_stream_new(model, 3, &streams) == RTF_OK &&
                rtf_sequences_new(model, 37, &sequences) == RTF_OK && rtf_stream_join(streams, &ids[0]) == RTF_OK &&
                rtf_stream_join(streams, &ids[1]) == RTF_OK;
    ASSERT_TRUE(good) << rtf_last_error();
    constexpr std::size_t length = 37;
    const bool pair = a.decoder == Architecture::Decoder::pair;
    const std::size_t outputs = pair ? 0 : a.outputs;
    const std::vector<T> in(2 * length * a.features, T(0.5));
    const std::vector<std::int64_t> tokens(2 * length, 0);
    std::vector<T> out(2 * length * a.outputs);
    std::vector<std::byte> saved(info.state_bytes);
    const rtf_layout from = rtf_channels_last(2, length, info.inputs), to = rtf_length_last(2, outputs, length);
    const bool pools = pair || a.decoder == Architecture::Decoder::pool;
    const rtf_layout answers = rtf_channels_last(pair ? 1 : 2, pools ? 1 : length, a.outputs);
    const auto expect = [&](rtf_status status) { good = good && status == RTF_OK; };
    const auto all = [&] {
      if (a.vocabulary > 0) {
        expect(C<T>::step_tokens(streams, ids, 2, tokens.data(), 2, out.data(), 2 * outputs));
        expect(C<T>::process_tokens(streams, nullptr, 2, tokens.data(), &from, out.data(), &to));
        expect(rtf_stream_prefill_tokens(streams, ids, 2, tokens.data(), &from));
        expect(C<T>::whole_tokens(sequences, tokens.data(), &from, out.data(), &answers));
      } else {
        expect(C<T>::step(streams, ids, 2, in.data(), 2 * a.features, out.data(), 2 * outputs));
        expect(C<T>::process(streams, nullptr, 2, in.data(), &from, out.data(), &to));
        expect(C<T>::prefill(streams, ids, 2, in.data(), &from));
        expect(C<T>::whole(sequences, in.data(), &from, out.data(), &answers));
      }
      if (a.decoder == Architecture::Decoder::pool) expect(C<T>::answer(streams, ids[0], out.data(), outputs));
      if (pair) expect(C<T>::answer_pair(streams, ids[0], ids[1], out.data(), a.outputs));
      std::size_t fork = 0;
      expect(rtf_stream_save(streams, ids[0], saved.data(), saved.size()));
      expect(rtf_stream_restore(streams, ids[1], saved.data(), saved.size()));
      expect(rtf_stream_fork(streams, ids[0], &fork));
      expect(rtf_stream_leave(streams, fork));
      expect(rtf_stream_swap(streams, model, 0));
      expect(rtf_stream_reset(streams, ids[0]));
    };
    const Counts counts = counted(all);
    EXPECT_TRUE(good) << rtf_last_error();
    EXPECT_EQ(counts.allocations, 0);
    EXPECT_EQ(counts.locks, 0);
    EXPECT_EQ(signal_of_silent(all), 0);
    rtf_sequences_free(sequences);
    rtf_stream_free(streams);
    rtf_model_free(model);
  }
}

TEST(StreamQuiet, Float) { expect_quiet<float>(1); }
TEST(StreamQuiet, Double) { expect_quiet<double>(2); }
TEST(StreamQuiet, FloatThroughC) { expect_quiet_through_c<float>(3); }
TEST(StreamQuiet, DoubleThroughC) { expect_quiet_through_c<double>(4); }

}  // namespace
}  // namespace rtf::stream

#endif
