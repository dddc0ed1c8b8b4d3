/* What the C tests share: checks that go on after a failure, and models and samples to run. */
#ifndef C_API_TEST_H
#define C_API_TEST_H

#include <rtf.h>

extern int failures;
void check(int good, const char* what, const char* file, int line);
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
#define OK(call) check((call) == RTF_OK, #call, __FILE__, __LINE__)

/* The call failed with this code, and a message of one line that begins with an operation and has `part` in it. */
void refused(rtf_status got, rtf_status wanted, const char* part, const char* what, const char* file, int line);
#define REFUSED(call, code, part) refused((call), (code), (part), #call, __FILE__, __LINE__)

/* Of the models that write_models.cpp calls numbers, louder, double, pool and pair. */
enum { inputs = 2, outputs = 3, samples = 200 };

extern const char* folder; /* of the models */
const char* path_of(const char* model);
rtf_model* load(const char* name, rtf_precision precision);
/* The first `joined` of them have joined. */
rtf_streams* streams_of(const rtf_model* model, size_t capacity, size_t joined);
void make_samples(float* in, size_t count);
void* read_whole(const char* path, size_t* size);
/* All samples of one stream at once. */
void whole(const rtf_model* model, const float* in, float* out);

void test_filter(void);
void test_refusals(void);
void test_sequences(void);
void test_threads(void);

#endif
