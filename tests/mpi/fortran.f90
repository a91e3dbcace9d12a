! SPDX-License-Identifier: Apache-2.0
! MPI-IO from Fortran; compiled three times: with mpif.h, use mpi and use mpi_f08 (-DBINDING=1, 2, 3).
program fortran
#if BINDING == 3
  use mpi_f08
  implicit none
  type(MPI_File) :: file
  type(MPI_Datatype) :: part
  type(MPI_Status) :: status
#else
#if BINDING == 2
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: file, part
  integer :: status(MPI_STATUS_SIZE)
#endif
  integer, parameter :: n = 1000
  integer :: rank, ranks, ierr, i, count
  integer :: out(n), in(n)
  integer(kind=MPI_OFFSET_KIND) :: place, bytes
  character(len=500) :: prefix

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, prefix)
  do i = 1, n
    out(i) = rank * n + i
  end do
  call MPI_File_open(MPI_COMM_WORLD, trim(prefix) // '/fortran', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, ierr)
  call expect(ierr == MPI_SUCCESS, 'open')
  call MPI_Type_create_subarray(2, (/ ranks, n /), (/ 1, n /), (/ rank, 0 /), MPI_ORDER_FORTRAN, MPI_INTEGER, part, ierr)
  call MPI_Type_commit(part, ierr)
  place = 0
  call MPI_File_set_view(file, place, MPI_INTEGER, part, 'native', MPI_INFO_NULL, ierr)
  call expect(ierr == MPI_SUCCESS, 'set_view')
  call MPI_File_write_all(file, out, n, MPI_INTEGER, status, ierr)
  call expect(ierr == MPI_SUCCESS, 'write_all')
  call MPI_File_read_at_all(file, place, in, n, MPI_INTEGER, status, ierr)
  call expect(ierr == MPI_SUCCESS .and. all(in == out), 'read_at_all')
  call MPI_Get_count(status, MPI_INTEGER, count, ierr)
  call expect(count == n, 'get_count')
  call MPI_File_get_size(file, bytes, ierr)
  call expect(bytes == 4_MPI_OFFSET_KIND * n * ranks, 'get_size')
  call MPI_File_write_shared(file, out, 10, MPI_INTEGER, status, ierr)
  call expect(ierr == MPI_SUCCESS, 'write_shared')
  call MPI_File_close(file, ierr)
  call expect(ierr == MPI_SUCCESS, 'close')
  call MPI_Type_free(part, ierr)
  call MPI_Finalize(ierr)
contains
  subroutine expect(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (good) return
    print *, 'rank', rank, 'wrong: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, i)
  end subroutine
end program
