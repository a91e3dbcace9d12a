// SPDX-License-Identifier: Apache-2.0
// main() of spate-export, which `spate export` starts.
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>

#include "base/open_files.h"
#include "base/printable.h"
#include "base/unique_fd.h"
#include "log/log.h"
#include "nbd/options.h"
#include "nbd/service.h"

namespace {

using namespace spate;

int fail(const Error& error) {
  std::fprintf(stderr, "spate export: %s\n", printable_lines(error.message()).c_str());
  return 1;
}

void print(const std::vector<std::string>& urls) {
  for (const std::string& url : urls) std::printf("%s\n", url.c_str());
  std::fflush(stdout);
}

Result<void> run(const nbd::ExportOptions& options, const sigset_t& ends) {
  const UniqueFd signals(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return errno_error(errno, "signalfd");
  return nbd::serve_exports(options, signals.get(), [&options](const std::vector<std::string>& urls) {
    if (!options.quiet) print(urls);
  });
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  const auto options = nbd::parse_export_options(std::vector<std::string>(argv + 1, argv + argc));
  if (!options && options.code() == Errc::kCancelled)
    return std::fputs(std::string(nbd::export_usage()).c_str(), stdout) < 0 ? 1 : 0;
  if (!options) {
    std::fprintf(stderr, "spate export: %s\nTry `spate export --help`.\n", options.error().message().c_str());
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // writing beyond the file size limit makes that write fail
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread is started
  if (options->server == 0) {
    std::ignore = log::set_levels(options->verbose ? "warn,nbd=debug" : "warn");
    const auto served = run(*options, ends);
    return served ? 0 : fail(served.error());
  }
  const auto of_server = nbd::options_of_server(*options);
  if (!of_server) return fail(of_server.error());
  const auto served = run(*of_server, ends);
  return served ? 0 : fail(served.error());
}
