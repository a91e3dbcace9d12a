// SPDX-License-Identifier: Apache-2.0
// main() of spate-broker. Only the preload library starts it, with the socket that programs connect to as descriptor 3.
#include <fcntl.h>

#include <csignal>
#include <cstdio>

#include "assembly/locate.h"
#include "base/local_socket.h"
#include "base/open_files.h"
#include "log/log.h"
#include "preload/broker/broker.h"

namespace {

using namespace spate;

constexpr int kListening = 3;

Result<void> serve(const std::string& config_file, const std::string& socket_name) {
  ::fcntl(kListening, F_SETFL, O_NONBLOCK);
  assembly::ClientSettings settings;
  settings.config_file = config_file;
  SPATE_TRY(settings.overrides, config::overrides_from_environment(assembly::whole_environment()));
  settings.overrides.push_back({"client.bypass", "off", "programs without a mount"});
  settings.program = "spate-broker";
  settings.credential = assembly::own_credential();
  settings.progress_thread = true;
  SPATE_TRY(auto process, assembly::ClientProcess::open(settings));
  SPATE_TRY(auto broker, preload::Broker::make(*process, UniqueFd(kListening)));
  broker->run();
  remove_socket(socket_name);  // while the broker still listens: later the name may be the next broker's
  broker.reset();              // before the client, which it uses
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("spate-broker: started by libspate-preload.so as it is needed, never by hand (docs/preload.md)\n",
               stderr);
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::ignore = raise_open_files_limit();
  std::ignore = log::set_levels("off");
  const auto served = serve(argv[1], argv[2]);
  return served ? 0 : 1;
}
