// SPDX-License-Identifier: Apache-2.0
#include "posix/errno.h"

#include <cerrno>

#include "base/expect.h"

namespace spate::posix {
namespace {

TEST(Errno, EveryErrnoWithACodeSurvivesTheRoundTrip) {
  for (const int number :
       {ENOENT, EEXIST, ENOTDIR,    EISDIR, ENOTEMPTY, ENAMETOOLONG, EMLINK, ELOOP,   ENODATA, ESTALE,
        EBADF,  EXDEV,  EACCES,     EPERM,  EROFS,     ENOSPC,       EDQUOT, EFBIG,   EBUSY,   EAGAIN,
        ENOMEM, EINVAL, EOPNOTSUPP, ERANGE, ETIMEDOUT, E2BIG,        ENXIO,  EDEADLK, ENOLCK}) {
    EXPECT_EQ(to_errno(errc_from_errno(number)), number) << number;
  }
}

TEST(Errno, OnlySuccessIsZero) {
  EXPECT_EQ(to_errno(Errc::kOk), 0);
  for (std::uint16_t value = 1; value < 200; ++value) EXPECT_GT(to_errno(static_cast<Errc>(value)), 0) << value;
}

TEST(Errno, ErrorsThatAProgramCannotActOnBecomeEio) {
  for (const Errc code :
       {Errc::kUnknown, Errc::kIoError, Errc::kCorrupt, Errc::kLostWrite, Errc::kProtocol, Errc::kSessionFenced}) {
    EXPECT_EQ(to_errno(code), EIO) << name(code);
  }
}

}  // namespace
}  // namespace spate::posix
