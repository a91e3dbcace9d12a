/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MPI that the front takes over, each as MPI_ and PMPI_. It does not take over MPI_File_c2f,
 * MPI_File_f2c and the error handlers' functions, because the handle of a file of Spate is one of MPI's own
 * (back/mpi.h). Functions of LARGE_COUNTS come twice, the second time with _c. tests/mpi/names.py compares the list
 * with the exports of the installed MPI libraries. */
#ifndef SPATE_MPIIO_NAMES_H
#define SPATE_MPIIO_NAMES_H

#define SPATE_MPI_NAMES(NAME)    \
  NAME(File_open)                \
  NAME(File_close)               \
  NAME(File_delete)              \
  NAME(File_get_amode)           \
  NAME(File_get_atomicity)       \
  NAME(File_get_byte_offset)     \
  NAME(File_get_group)           \
  NAME(File_get_info)            \
  NAME(File_get_position)        \
  NAME(File_get_position_shared) \
  NAME(File_get_size)            \
  NAME(File_get_view)            \
  NAME(File_preallocate)         \
  NAME(File_seek)                \
  NAME(File_seek_shared)         \
  NAME(File_set_atomicity)       \
  NAME(File_set_info)            \
  NAME(File_set_size)            \
  NAME(File_set_view)            \
  NAME(File_sync)                \
  NAME(File_read_all_end)        \
  NAME(File_read_at_all_end)     \
  NAME(File_read_ordered_end)    \
  NAME(File_write_all_end)       \
  NAME(File_write_at_all_end)    \
  NAME(File_write_ordered_end)

/* Passed on as they are; taken so that what cannot work is said when MPI begins. */
#define SPATE_MPI_STARTS(NAME) \
  NAME(Init)                   \
  NAME(Init_thread)

#define SPATE_MPI_LARGE_COUNTS(NAME) \
  NAME(File_get_type_extent)         \
  NAME(File_iread)                   \
  NAME(File_iread_all)               \
  NAME(File_iread_at)                \
  NAME(File_iread_at_all)            \
  NAME(File_iread_shared)            \
  NAME(File_iwrite)                  \
  NAME(File_iwrite_all)              \
  NAME(File_iwrite_at)               \
  NAME(File_iwrite_at_all)           \
  NAME(File_iwrite_shared)           \
  NAME(File_read)                    \
  NAME(File_read_all)                \
  NAME(File_read_all_begin)          \
  NAME(File_read_at)                 \
  NAME(File_read_at_all)             \
  NAME(File_read_at_all_begin)       \
  NAME(File_read_ordered)            \
  NAME(File_read_ordered_begin)      \
  NAME(File_read_shared)             \
  NAME(File_write)                   \
  NAME(File_write_all)               \
  NAME(File_write_all_begin)         \
  NAME(File_write_at)                \
  NAME(File_write_at_all)            \
  NAME(File_write_at_all_begin)      \
  NAME(File_write_ordered)           \
  NAME(File_write_ordered_begin)     \
  NAME(File_write_shared)            \
  NAME(Register_datarep)

#endif
