# SPDX-License-Identifier: Apache-2.0
# fio writes blocks that contain their checksum and place, in order and at random, by several processes and threads. Then it reads them back.
# needs: fio
# excused: makes system calls itself
# seconds: 900
check() {
  fio --minimal --directory=. --verify=crc32c --verify_fatal=1 --verify_dump=0 --randrepeat=0 --size=8M "$@" > "$local/out" 2>&1 ||
    { echo "fio $*"; tail -n 20 "$local/out"; return 1; }
}
check --name=in_order --rw=write --bs=128k --numjobs=4 --ioengine=psync
check --name=random --rw=randwrite --bs=4k --numjobs=4 --ioengine=psync --fsync=64
check --name=threads --rw=randwrite --bs=16k --numjobs=4 --thread --ioengine=psync
check --name=vectors --rw=randwrite --bsrange=512-64k --bs_unaligned=1 --numjobs=2 --ioengine=pvsync2
check --name=seeks --rw=randwrite --bsrange=1k-40k --numjobs=2 --ioengine=sync
check --name=mixed --rw=randrw --rwmixread=30 --bs=8k --numjobs=4 --ioengine=psync --verify_backlog=64
check --name=direct --rw=randwrite --bs=4k --numjobs=2 --ioengine=psync --direct=1
check --name=fallocated --rw=randwrite --bs=4k --fallocate=posix --ioengine=psync
check --name=posixaio --rw=randwrite --bs=32k --iodepth=4 --ioengine=posixaio
# Two processes share one file. Each writes its own half.
check --name=halves --filename=shared --rw=randwrite --bs=4k --numjobs=2 --size=4M --offset_increment=4M --ioengine=psync
if [ "$FRONTEND" != preload ]; then  # shared writable maps, and what only the kernel starts
  check --name=mapped --rw=randwrite --bs=4k --numjobs=2 --ioengine=mmap
  check --name=mapped_order --rw=write --bs=64k --ioengine=mmap --fsync=16
  check --name=libaio --rw=randwrite --bs=16k --iodepth=8 --ioengine=libaio
  check --name=io_uring --rw=randwrite --bs=16k --iodepth=8 --ioengine=io_uring
fi
