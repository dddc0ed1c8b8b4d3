/* rtf for C: trained models run sample by sample, and rational filters. C11, and C++ as well.
 *
 * Every function that can fail returns an rtf_status and leaves what it was to write as it was when it fails;
 * rtf_last_error() then has the reason in one line. Handles are opaque: each has a function that makes it and one that
 * frees it. Freeing NULL does nothing.
 *
 * Threads: an rtf_model and an rtf_filter do not change, so any number of threads may use one at once. An rtf_streams
 * and an rtf_sequences are for one thread at a time; two of the same model run beside each other. rtf_last_error() is
 * of the calling thread.
 *
 * Once a model and its streams or sequences are made, rtf_stream_* and rtf_sequences_process_* neither allocate nor
 * lock nor call the system, unless they fail. */
#ifndef RTF_H
#define RTF_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RTF_API __attribute__((visibility("default")))
#else
#define RTF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- Versions and errors ----------------------------------------------------------------------------------------- */

/* Of this header; rtf_version() is that of the library. Those of one minor version work together. */
#define RTF_VERSION "0.1.0"
RTF_API const char* rtf_version(void);

typedef enum rtf_status {
  RTF_OK = 0,
  RTF_ERROR_ARGUMENT = 1,    /* a null pointer, or a wrong size or value */
  RTF_ERROR_FORMAT = 2,      /* a file or a state that is not what it should be */
  RTF_ERROR_IO = 3,          /* the system refused to read */
  RTF_ERROR_UNSTABLE = 4,    /* rounding would drown the answer */
  RTF_ERROR_UNSUPPORTED = 5, /* a valid request that cannot be served */
  RTF_ERROR_MEMORY = 6,      /* there is not enough memory */
  RTF_ERROR_INTERNAL = 7     /* a defect of the library */
} rtf_status;

/* "argument", "format" and so on; "ok" for RTF_OK. */
RTF_API const char* rtf_status_name(rtf_status status);

/* Why the last function that failed in this thread did, "[rtf::stream::step] stream 3 has not joined": one line, valid
 * until the next failure in this thread; "" before the first. */
RTF_API const char* rtf_last_error(void);

/* --- Models ------------------------------------------------------------------------------------------------------- */

typedef enum rtf_precision { RTF_F32 = 0, RTF_F64 = 1 } rtf_precision;

typedef struct rtf_model rtf_model;

/* Reads a file of `rtf export`. Arithmetic and samples are float (RTF_F32) or double (RTF_F64); a file of precision f64
 * needs RTF_F64. */
RTF_API rtf_status rtf_model_load(const char* path, rtf_precision precision, rtf_model** model);

/* The same of the `size` bytes of such a file, which may go away afterwards. */
RTF_API rtf_status rtf_model_load_bytes(const void* bytes, size_t size, rtf_precision precision, rtf_model** model);

/* Streams of the model go on: its memory is freed with the last of them. */
RTF_API void rtf_model_free(rtf_model* model);

typedef struct rtf_model_info {
  rtf_precision precision; /* of the arithmetic and of the samples */
  size_t vocabulary;       /* a sample is a token from 0 to vocabulary - 1; 0: a sample is `inputs` numbers */
  size_t inputs;           /* numbers of a sample: the features, or 1 token */
  size_t outputs;          /* numbers of an answer */
  size_t channels, layers;
  size_t length;       /* of the sequences that it was trained on */
  const char* decoder; /* "pool", "last", "position" or "pair" */
  int bidirectional;   /* 1: it sees whole sequences, rtf_sequences_* run it; rtf_stream_new refuses it */
  size_t last;         /* of decoder last: how many answers at the end of a sequence were trained */
  size_t weight_bytes; /* memory of the weights */
  size_t state_bytes;  /* of one saved stream */
} rtf_model_info;

RTF_API rtf_status rtf_model_describe(const rtf_model* model, rtf_model_info* info);

typedef struct rtf_layer_info {
  const char* realization; /* "companion", "sos" or "modal" */
  rtf_precision precision; /* of its numbers in the file */
  size_t order;
  double pole_radius; /* of the outermost pole */
  double error;       /* of the kernel it runs, measured at export, over the kernel's largest value */
} rtf_layer_info;

/* Of layer 0 to layers - 1; of a bidirectional model its forward direction. */
RTF_API rtf_status rtf_model_describe_layer(const rtf_model* model, size_t layer, rtf_layer_info* info);

/* --- Streams ------------------------------------------------------------------------------------------------------ */

/* Independent streams of one model that advance together or each on its own. A stream is a number below the capacity.
 * Answers do not depend, to the last bit, on which other streams run beside it, nor on how its samples are cut into
 * calls. */
typedef struct rtf_streams rtf_streams;

RTF_API rtf_status rtf_stream_new(const rtf_model* model, size_t capacity, rtf_streams** streams);
RTF_API void rtf_stream_free(rtf_streams* streams);

RTF_API rtf_status rtf_stream_capacity(const rtf_streams* streams, size_t* capacity);
/* Streams that have joined and not left. */
RTF_API rtf_status rtf_stream_size(const rtf_streams* streams, size_t* size);
/* 1 or 0. */
RTF_API rtf_status rtf_stream_joined(const rtf_streams* streams, size_t stream, int* joined);

/* A stream that has seen nothing: the smallest number that is free, so 0 is the first. Refused when all are taken. */
RTF_API rtf_status rtf_stream_join(rtf_streams* streams, size_t* stream);
/* Another one that goes on from where `stream` is. */
RTF_API rtf_status rtf_stream_fork(rtf_streams* streams, size_t stream, size_t* other);
RTF_API rtf_status rtf_stream_leave(rtf_streams* streams, size_t stream);
RTF_API rtf_status rtf_stream_reset(rtf_streams* streams, size_t stream);

/* Below, `which` lists `count` streams; NULL: streams 0 to count - 1. Each must have joined and is named once. The
 * functions that end in _f32 are for models loaded with RTF_F32, those in _f64 for RTF_F64. Sizes count numbers. */

/* One sample of each stream: in (count, inputs), out (count, outputs). The answer of decoder pool is for all samples so
 * far, that of last and position for this one. Decoder pair has no answer of a single stream: out_size is 0, and
 * rtf_stream_answer_pair_* gives it. Samples are not looked at: one that is not finite, or so large that a layer
 * overflows, stays in the state of its stream, whose answers are then not finite until rtf_stream_reset or
 * rtf_stream_restore. */
RTF_API rtf_status rtf_stream_step_f32(rtf_streams* streams, const size_t* which, size_t count, const float* in,
                                       size_t in_size, float* out, size_t out_size);
RTF_API rtf_status rtf_stream_step_f64(rtf_streams* streams, const size_t* which, size_t count, const double* in,
                                       size_t in_size, double* out, size_t out_size);
/* The same of models with a vocabulary: tokens (count). */
RTF_API rtf_status rtf_stream_step_tokens_f32(rtf_streams* streams, const size_t* which, size_t count,
                                              const int64_t* tokens, size_t tokens_size, float* out, size_t out_size);
RTF_API rtf_status rtf_stream_step_tokens_f64(rtf_streams* streams, const size_t* which, size_t count,
                                              const int64_t* tokens, size_t tokens_size, double* out, size_t out_size);

/* Where the numbers of a block lie: number (b, t, c) is batch_stride b + length_stride t + channel_stride c numbers
 * from the first. The batch is the streams. */
typedef struct rtf_layout {
  size_t batch, length, channels;
  ptrdiff_t batch_stride, length_stride, channel_stride;
} rtf_layout;

/* Interleaved, (batch, length, channels) without gaps. */
RTF_API rtf_layout rtf_channels_last(size_t batch, size_t length, size_t channels);
/* Planar, (batch, channels, length) without gaps. */
RTF_API rtf_layout rtf_length_last(size_t batch, size_t channels, size_t length);

/* Blocks: what as many steps would give. in (count, length, inputs), out (count, length, outputs); tokens have one
 * channel. With decoder pair, out and out_layout are NULL. The two blocks do not overlap. */
RTF_API rtf_status rtf_stream_process_f32(rtf_streams* streams, const size_t* which, size_t count, const float* in,
                                          const rtf_layout* in_layout, float* out, const rtf_layout* out_layout);
RTF_API rtf_status rtf_stream_process_f64(rtf_streams* streams, const size_t* which, size_t count, const double* in,
                                          const rtf_layout* in_layout, double* out, const rtf_layout* out_layout);
RTF_API rtf_status rtf_stream_process_tokens_f32(rtf_streams* streams, const size_t* which, size_t count,
                                                 const int64_t* tokens, const rtf_layout* tokens_layout, float* out,
                                                 const rtf_layout* out_layout);
RTF_API rtf_status rtf_stream_process_tokens_f64(rtf_streams* streams, const size_t* which, size_t count,
                                                 const int64_t* tokens, const rtf_layout* tokens_layout, double* out,
                                                 const rtf_layout* out_layout);

/* Blocks whose answers are not wanted. */
RTF_API rtf_status rtf_stream_prefill_f32(rtf_streams* streams, const size_t* which, size_t count, const float* in,
                                          const rtf_layout* in_layout);
RTF_API rtf_status rtf_stream_prefill_f64(rtf_streams* streams, const size_t* which, size_t count, const double* in,
                                          const rtf_layout* in_layout);
RTF_API rtf_status rtf_stream_prefill_tokens(rtf_streams* streams, const size_t* which, size_t count,
                                             const int64_t* tokens, const rtf_layout* tokens_layout);

/* For all samples so far, `outputs` numbers: of decoder pool, and of decoder pair for two streams. While a swap fades
 * it is the new model's answer. */
RTF_API rtf_status rtf_stream_answer_f32(rtf_streams* streams, size_t stream, float* out, size_t out_size);
RTF_API rtf_status rtf_stream_answer_f64(rtf_streams* streams, size_t stream, double* out, size_t out_size);
RTF_API rtf_status rtf_stream_answer_pair_f32(rtf_streams* streams, size_t first, size_t second, float* out,
                                              size_t out_size);
RTF_API rtf_status rtf_stream_answer_pair_f64(rtf_streams* streams, size_t first, size_t second, double* out,
                                              size_t out_size);

/* Another model of the same architecture and realizations under the running streams, which keep their states. For
 * `fade` samples of each stream its answers go over from those of the one model to those of the other. The streams hold
 * on to the two last models; a third one is let go here, which frees its memory if it has been freed by rtf_model_free:
 * free it later where that must not happen in this thread. */
RTF_API rtf_status rtf_stream_swap(rtf_streams* streams, const rtf_model* model, size_t fade);

/* state_bytes bytes with a version and a checksum, the same whatever the processor. The state of another model is
 * refused and changes nothing; a restored stream goes on to the last bit on the same processor. */
RTF_API rtf_status rtf_stream_save(const rtf_streams* streams, size_t stream, void* bytes, size_t size);
RTF_API rtf_status rtf_stream_restore(rtf_streams* streams, size_t stream, const void* bytes, size_t size);

/* --- Whole sequences ---------------------------------------------------------------------------------------------- */

/* Room for whole sequences of up to `longest` samples, of models of either kind. For one thread at a time. */
typedef struct rtf_sequences rtf_sequences;

RTF_API rtf_status rtf_sequences_new(const rtf_model* model, size_t longest, rtf_sequences** sequences);
RTF_API void rtf_sequences_free(rtf_sequences* sequences);

/* in (batch, length, inputs), length at least 1. Decoders position and last answer at every sample: out (batch, length,
 * outputs). Decoder pool answers once a sequence, (batch, 1, outputs), and pair once for sequences i and i + batch / 2,
 * (batch / 2, 1, outputs). Nothing is allocated. */
RTF_API rtf_status rtf_sequences_process_f32(rtf_sequences* sequences, const float* in, const rtf_layout* in_layout,
                                             float* out, const rtf_layout* out_layout);
RTF_API rtf_status rtf_sequences_process_f64(rtf_sequences* sequences, const double* in, const rtf_layout* in_layout,
                                             double* out, const rtf_layout* out_layout);
RTF_API rtf_status rtf_sequences_process_tokens_f32(rtf_sequences* sequences, const int64_t* tokens,
                                                    const rtf_layout* tokens_layout, float* out,
                                                    const rtf_layout* out_layout);
RTF_API rtf_status rtf_sequences_process_tokens_f64(rtf_sequences* sequences, const int64_t* tokens,
                                                    const rtf_layout* tokens_layout, double* out,
                                                    const rtf_layout* out_layout);

/* --- Filters ------------------------------------------------------------------------------------------------------ */

/* A filter file of any form that `rtf filter` takes, a trained one corrected. These functions allocate, and share work
 * among as many threads as the environment's RTF_THREADS says, by default the cores. */
typedef struct rtf_filter rtf_filter;

RTF_API rtf_status rtf_filter_load(const char* path, rtf_filter** filter);
RTF_API void rtf_filter_free(rtf_filter* filter);

typedef struct rtf_filter_info {
  size_t channels;
  size_t order; /* numbers of a channel's state; of sections those of all together */
} rtf_filter_info;

RTF_API rtf_status rtf_filter_describe(const rtf_filter* filter, rtf_filter_info* info);

/* Impulse responses, (channels, length); size is channels * length. */
RTF_API rtf_status rtf_filter_kernel(const rtf_filter* filter, size_t length, double* kernel, size_t size);

/* H(e^{i angle}) at `count` angles in radians a sample: (channels, count) pairs of real and imaginary part; size is
 * 2 * channels * count. */
RTF_API rtf_status rtf_filter_frequency_response(const rtf_filter* filter, const double* angles, size_t count,
                                                 double* response, size_t size);

/* A block through the filter: in and out (length, channels), size is length * channels, and out may be in. `state`,
 * (channels, order), goes in and comes out, all zero before the first sample; NULL: from zero, and not wanted. Blocks
 * one after the other give what one long block gives, to rounding. */
RTF_API rtf_status rtf_filter_process(const rtf_filter* filter, const double* in, double* out, size_t size,
                                      double* state, size_t state_size);

#ifdef __cplusplus
}
#endif

#endif
