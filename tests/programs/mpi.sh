# SPDX-License-Identifier: Apache-2.0
# Builds a program of MPI in the tree. One, two and four processes of it use MPI-IO of MPICH (ROMIO).
# needs: mpirun.mpich mpicc.mpich
# seconds: 300
mpicc.mpich -O1 -Wall -o mpi_io "$SPATE_SOURCE/tests/programs/mpi_io.c"
for ranks in 1 2 4; do
  equal "$(timeout 100 mpirun.mpich -n $ranks ./mpi_io "$work/data")" "$ranks ranks"
  cmp data.0 data.1 && equal "$(stat -c %s data.0)" $((ranks * 64000)) && rm data.*
done
equal "$(ls -A)" mpi_io
