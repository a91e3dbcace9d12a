/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns over MPI, as bmi.py starts it: one rank a process, servers first. Prints one number: microseconds a round
 * trip, or bytes a second. Built by bmi.py for each MPI that is there. */
#include <mpi.h>
#include <stdio.h>

#include "plan.h"

enum { TAG_REQUEST = 1, TAG_ACK = 2, TAG_DATA = 3 };

static double round_trip(const struct plan* plan, int rank) {
  char* const out = calloc(1, plan->size);
  char* const in = calloc(1, plan->size);
  struct batches batches = {{0}, 0, 0};
  for (long i = -plan->count / 10; i <= plan->count; ++i) {
    if (i == batches.next) batches_note(&batches, plan, MPI_Wtime());
    if (rank == 1) MPI_Send(out, (int)plan->size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    MPI_Recv(in, (int)plan->size, MPI_BYTE, 1 - rank, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Send(out, (int)plan->size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
  }
  free(out);
  free(in);
  return batches_median(&batches, plan);
}

static double stream(const struct plan* plan, int rank) {
  char* const data = calloc(1, plan->size);
  MPI_Request* const requests = calloc((size_t)plan->count, sizeof *requests);
  for (long i = 0; i < plan->count && rank == 0; ++i) {
    MPI_Irecv(data, (int)plan->size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (long i = 0; i < plan->count && rank == 1; ++i) {
    MPI_Isend(data, (int)plan->size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall((int)plan->count, requests, MPI_STATUSES_IGNORE);
  const double seconds = MPI_Wtime() - begin;
  free(requests);
  free(data);
  return (double)plan->count * (double)plan->size / seconds;
}

/* Answers one request of each client: the acknowledgment, then the data. */
static void serve(const struct plan* plan) {
  enum { MESSAGES = READ_PAIR_BYTES / READ_MESSAGE_BYTES };
  char request[READ_REQUEST_BYTES];
  char ack[READ_ACK_BYTES] = {0};
  char* const data = calloc(1, READ_PAIR_BYTES);
  const int total = plan->clients * (MESSAGES + 1);
  MPI_Request* const sends = calloc((size_t)total, sizeof *sends);
  int* const which = calloc((size_t)total, sizeof *which);
  int sent = 0;
  for (int answered = 0, open = 0; answered < plan->clients || open > 0;) {
    int there = 0;
    MPI_Status status;
    if (answered < plan->clients) MPI_Iprobe(MPI_ANY_SOURCE, TAG_REQUEST, MPI_COMM_WORLD, &there, &status);
    if (there) {
      const int client = status.MPI_SOURCE;
      MPI_Recv(request, sizeof request, MPI_BYTE, client, TAG_REQUEST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Isend(ack, sizeof ack, MPI_BYTE, client, TAG_ACK, MPI_COMM_WORLD, &sends[sent++]);
      for (int i = 0; i < MESSAGES; ++i) {
        MPI_Isend(data + (size_t)i * READ_MESSAGE_BYTES, READ_MESSAGE_BYTES, MPI_BYTE, client, TAG_DATA, MPI_COMM_WORLD, &sends[sent++]);
      }
      open += MESSAGES + 1;
      ++answered;
    }
    int done = 0;
    if (sent > 0) MPI_Testsome(sent, sends, &done, which, MPI_STATUSES_IGNORE);
    if (done > 0) open -= done;
  }
  free(which);
  free(sends);
  free(data);
}

static void read_all(const struct plan* plan) {
  enum { MESSAGES = READ_PAIR_BYTES / READ_MESSAGE_BYTES, PIECE = READ_MESSAGE_BYTES / READ_PIECES };
  char request[READ_REQUEST_BYTES] = {0};
  char* const acks = calloc((size_t)plan->servers, READ_ACK_BYTES);
  char* const data = calloc((size_t)plan->servers, 2 * READ_PAIR_BYTES);
  const int total = plan->servers * (MESSAGES + 1);
  MPI_Request* const receives = calloc((size_t)total, sizeof *receives);
  int* const which = calloc((size_t)total, sizeof *which);
  MPI_Datatype pieces;  /* every other 64 KiB */
  MPI_Type_create_hvector(READ_PIECES, PIECE, 2 * PIECE, MPI_BYTE, &pieces);
  MPI_Type_commit(&pieces);
  int posted = 0;
  for (int server = 0; server < plan->servers; ++server) {
    MPI_Irecv(acks + (size_t)server * READ_ACK_BYTES, READ_ACK_BYTES, MPI_BYTE, server, TAG_ACK, MPI_COMM_WORLD, &receives[posted++]);
    for (int i = 0; i < MESSAGES; ++i) {
      char* const to = data + (size_t)server * 2 * READ_PAIR_BYTES + (size_t)i * 2 * READ_MESSAGE_BYTES;
      MPI_Irecv(to, 1, pieces, server, TAG_DATA, MPI_COMM_WORLD, &receives[posted++]);
    }
    MPI_Send(request, sizeof request, MPI_BYTE, server, TAG_REQUEST, MPI_COMM_WORLD);
  }
  for (int open = total; open > 0;) {
    int done = 0;
    MPI_Testsome(total, receives, &done, which, MPI_STATUSES_IGNORE);
    if (done > 0) open -= done;
  }
  MPI_Type_free(&pieces);
  free(which);
  free(receives);
  free(data);
  free(acks);
}

static double parallel_read(const struct plan* plan, int rank) {
  double best = 0;
  for (int round = 0; round <= plan->rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (rank < plan->servers) {
      serve(plan);
    } else {
      read_all(plan);
    }
    double seconds = rank < plan->servers ? 0 : MPI_Wtime() - begin;
    double slowest = 0;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round > 0) best += slowest / plan->rounds; /* the first warms up */
  }
  return (double)plan->servers * plan->clients * READ_PAIR_BYTES / best;
}

int main(int argc, char** argv) {
  struct plan plan;
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!plan_parse(&plan, argc, argv)) MPI_Abort(MPI_COMM_WORLD, 2);
  double figure = 0;
  if (plan.pattern == PATTERN_ROUND_TRIP) figure = round_trip(&plan, rank);
  if (plan.pattern == PATTERN_STREAM) figure = stream(&plan, rank);
  if (plan.pattern == PATTERN_READ) figure = parallel_read(&plan, rank);
  if (rank == (plan.pattern == PATTERN_ROUND_TRIP ? 1 : 0)) printf("%.6g\n", figure);
  MPI_Finalize();
  return 0;
}
