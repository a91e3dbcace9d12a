/* SPDX-License-Identifier: Apache-2.0 */
/* The orders for the programs of this folder (bmi, raw sockets, memory, MPI). In C, since the MPI program is. */
#ifndef SPATE_BENCH_BMI_PLAN_H
#define SPATE_BENCH_BMI_PLAN_H

#include <stdlib.h>
#include <string.h>

enum { PATTERN_ROUND_TRIP, PATTERN_STREAM, PATTERN_READ, PATTERN_PRIORITY };

/* The parallel read pattern of the BMI paper, section 5.3. */
enum {
  READ_REQUEST_BYTES = 25,
  READ_ACK_BYTES = 400,
  READ_MESSAGE_BYTES = 256 * 1024,
  READ_PIECES = 4,
  READ_PAIR_BYTES = 10 * 1024 * 1024
};

struct plan {
  int pattern;
  const char* network; /* tcp, tcp+tls, shm, ofi+tcp, ofi+shm */
  size_t size;         /* of a message, bytes */
  long count;          /* round trips, or messages of a stream */
  int servers;
  int clients;
  int poll;      /* 1: neither side sleeps */
  int allocated; /* 1: buffers of mem_alloc */
  int ready;     /* of a stream: 1: the sender says that the receives are posted */
  int rounds;    /* of the read pattern */
  int load;      /* of the priority pattern: bulk messages of 1 MiB under way all the time; 0: none */
  int percent;   /* of the priority pattern: which percentile is told */
};

/* Parses NAME=VALUE arguments. Returns 0 if one is unknown or out of range. */
static int plan_parse(struct plan* plan, int argc, char** argv) {
  const struct plan usual = {PATTERN_ROUND_TRIP, "tcp", 24, 10000, 1, 1, 0, 0, 0, 5, 0, 99};
  *plan = usual;
  for (int i = 1; i < argc; ++i) {
    const char* value = strchr(argv[i], '=');
    if (value == NULL) return 0;
    const size_t length = (size_t)(value++ - argv[i]);
#define IS(name) (length == sizeof name - 1 && memcmp(argv[i], name, length) == 0)
    if (IS("pattern")) {
      plan->pattern = strcmp(value, "read") == 0       ? PATTERN_READ
                      : strcmp(value, "stream") == 0   ? PATTERN_STREAM
                      : strcmp(value, "priority") == 0 ? PATTERN_PRIORITY
                                                       : PATTERN_ROUND_TRIP;
    } else if (IS("network")) {
      plan->network = value;
    } else if (IS("size")) {
      plan->size = (size_t)atol(value);
    } else if (IS("count")) {
      plan->count = atol(value);
    } else if (IS("servers")) {
      plan->servers = atoi(value);
    } else if (IS("clients")) {
      plan->clients = atoi(value);
    } else if (IS("poll")) {
      plan->poll = atoi(value);
    } else if (IS("allocated")) {
      plan->allocated = atoi(value);
    } else if (IS("ready")) {
      plan->ready = atoi(value);
    } else if (IS("rounds")) {
      plan->rounds = atoi(value);
    } else if (IS("load")) {
      plan->load = atoi(value);
    } else if (IS("percent")) {
      plan->percent = atoi(value);
    } else {
      return 0;
    }
#undef IS
  }
  return plan->size > 0 && plan->count > 0 && plan->servers > 0 && plan->clients > 0 && plan->rounds > 0 &&
         plan->percent >= 0 && plan->percent < 100;
}

/* The time of a round trip is the median over batches, since a busy machine interrupts some of them. */
enum { BATCHES = 50 };
struct batches {
  double begun[BATCHES + 1];
  int count;
  long next; /* round trip that begins a batch; those before 0 warm up */
};

/* Call it when round trip `batches->next` begins; `now` is the time in seconds. */
static void batches_note(struct batches* batches, const struct plan* plan, double now) {
  batches->begun[batches->count++] = now;
  batches->next = batches->count <= BATCHES ? plan->count * batches->count / BATCHES : -plan->count;
}

static int batches_compare(const void* a, const void* b) {
  const double* const x = (const double*)a;
  const double* const y = (const double*)b;
  return *x < *y ? -1 : *x > *y;
}

/* The median time of one round trip, microseconds. */
static double batches_median(struct batches* batches, const struct plan* plan) {
  for (int i = 0; i + 1 < batches->count; ++i) batches->begun[i] = batches->begun[i + 1] - batches->begun[i];
  qsort(batches->begun, (size_t)(batches->count - 1), sizeof(double), batches_compare);
  return batches->begun[(batches->count - 1) / 2] * (double)BATCHES / (double)plan->count * 1e6;
}

#endif
