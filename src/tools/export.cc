// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tools/commands.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

/// The arguments of spate-export.
struct ExportArguments {
  std::vector<std::string> sources;
  std::string name, port, unix_path, tls, tls_keys, send_file_from, threads;
  std::vector<std::string> allow, addresses;
  bool read_only = false;
  bool insecure = false;
  bool verbose = false;
};

std::vector<std::string> words_of(const Context& context, const ExportArguments& a) {
  std::vector<std::string> words;
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(std::string(option) + "=" + value);
  };
  add("--name", a.name);
  add("--port", a.port);
  add("--unix", a.unix_path);
  for (const std::string& list : a.allow) add("--allow", list);
  add("--tls", a.tls);
  add("--tls-psk", a.tls_keys);
  add("--sendfile-from", a.send_file_from);
  add("--threads", a.threads);
  add("--fs", context.fs);
  for (const std::string& address : a.addresses) add("--bind", address);
  for (const std::string& setting : context.overrides) add("--set", setting);
  if (a.read_only) words.emplace_back("--read-only");
  if (a.insecure) words.emplace_back("--insecure");
  if (a.verbose) words.emplace_back("--verbose");
  if (context.quiet) words.emplace_back("--quiet");
  words.emplace_back("--");
  words.insert(words.end(), a.sources.begin(), a.sources.end());
  return words;
}

/// Executes spate-export in this process, since a service manager may have passed sockets to it.
int run_export(Context& context, const ExportArguments& arguments) {
  std::error_code error;
  const std::string program = (fs::read_symlink("/proc/self/exe", error).parent_path() / "spate-export").string();
  const std::vector<std::string> words = words_of(context, arguments);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return context.fail(errno_error(errno, "start " + program));
}

}  // namespace

Command make_export() {
  auto a = std::make_shared<ExportArguments>();
  Command command;
  command.name = "export";
  command.group = "Unchanged programs";
  command.summary = "serve files as network block devices (NBD)";
  command.details =
      "SOURCE is a file or block device of this machine, or spate:/PATH; NAME=SOURCE names it. Prints the address,\n"
      "as nbd://127.0.0.1:10809/NAME, and serves until it is ended. docs/block.md has more.";
  command.positionals = {{"SOURCE", "what to serve, one or several", &a->sources, true}};
  command.options = {
      {"-n,--name", "the export's name, with a single SOURCE", &a->name},
      {"-r,--read-only", "refuse writes", &a->read_only},
      {"-p,--port", "TCP port (10809); 0: a free one", &a->port},
      {"-b,--bind", "address to listen at (127.0.0.1); may be repeated", &a->addresses},
      {"-U,--unix", "listen at a Unix socket", &a->unix_path},
      {"-a,--allow", "[NAME=]LIST: who may use it: addresses, networks, \"unix\", cert:NAME, psk:NAME; may be repeated",
       &a->allow},
      {"--tls", "folder with server-cert.pem, server-key.pem and perhaps ca-cert.pem", &a->tls},
      {"--tls-psk", "file of keys, with name:hex on each line", &a->tls_keys},
      {"--insecure", "other machines may connect without TLS", &a->insecure},
      {"--sendfile-from", "smallest read, in bytes, that is sent by sendfile", &a->send_file_from},
      {"-t,--threads", "threads that serve connections (1); for files of this machine", &a->threads},
      {"-v,--verbose", "report each connection", &a->verbose}};
  command.run = [a](Context& context) { return run_export(context, *a); };
  return command;
}

}  // namespace spate::tools
