-- SPDX-License-Identifier: Apache-2.0
-- burst_buffer/lua of Slurm (22.05 or later): #SPATE lines of a job script make a file system for the job by `spate job`, stage in before
-- the script begins, and stage out and end it afterwards. docs/slurm.md describes the lines ("#SPATE in a job script"). This
-- file lies beside slurm.conf, with burst_buffer.conf.

-- The controller reaches a node by this launcher and address, as the job's user, and runs this program there.
local launcher = os.getenv("SPATE_JOB_LAUNCHER") or "ssh {host}"
local address = os.getenv("SPATE_JOB_ADDRESS") or "{host}"
local spate = os.getenv("SPATE_JOB_PROGRAM") or "spate"
local local_disk = os.getenv("SPATE_JOB_DIR") or "/tmp"

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local words_of = {stage_in = {"source", "destination"}, stage_out = {"source", "destination"}, mount = {"at"}}

-- Returns the beginning of a user's text, for a message.
local function shown(text) return #text > 200 and text:sub(1, 200) .. "..." or text end

-- Parses a line after "#SPATE ". Returns its name and KEY=VALUE words, or nil and the error. The time is proportional to its length.
local function parse_line(line)
  local name, rest = line:match("^%s*(%S+)(.*)$")
  local known = name and words_of[name]
  if not known then return nil, "#SPATE " .. shown(line) .. ": it begins with stage_in, stage_out or mount" end
  local found = {name = name}
  for word in rest:gmatch("%S+") do
    local key, value = word:match("^(%w+)=(.+)$")
    if not key then return nil, "#SPATE " .. name .. ": " .. shown(word) .. " is not KEY=VALUE" end
    found[key] = value
  end
  local count = 0
  for key in pairs(found) do if key ~= "name" then count = count + 1 end end
  for _, key in ipairs(known) do
    if not found[key] then return nil, "#SPATE " .. name .. " needs " .. key .. "=" end
  end
  if count ~= #known then return nil, "#SPATE " .. name .. " takes " .. table.concat(known, "= and ") .. "= only" end
  return found
end

local function check_ends(found)
  if found.name == "mount" then
    return found.at:sub(1, 1) == "/" or nil, "#SPATE mount: at= is an absolute path"
  end
  local outside = found.name == "stage_in" and found.source or found.destination
  local inside = found.name == "stage_in" and found.destination or found.source
  if outside:sub(1, 1) ~= "/" then return nil, "#SPATE " .. found.name .. ": " .. shown(outside) .. " is not an absolute path" end
  return inside:sub(1, 7) == "spate:/" or nil, "#SPATE " .. found.name .. ": " .. shown(inside) .. " does not begin with spate:/"
end

-- The controller reads at most this many bytes of a job's script, and keeps at most this many #SPATE lines.
local most_bytes, most_lines = 16 * 1024 * 1024, 1000

-- Returns the directives of a job script, or nil and the error.
local function directives(job_script)
  local file = io.open(job_script)
  if not file then return nil, "the job script cannot be read" end
  local text = file:read(most_bytes + 1) or ""
  file:close()
  if #text > most_bytes then return nil, "a job script with #SPATE lines is at most 16 MiB long" end
  local all = {}
  for line in text:gmatch("[^\n]+") do
    local told = line:match("^#SPATE%s+(.*)$")
    if told then
      if #all == most_lines then return nil, "a job script has at most 1000 #SPATE lines" end
      local found, wrong = parse_line(told)
      local good = found
      if found then good, wrong = check_ends(found) end
      if not good then return nil, wrong end
      all[#all + 1] = found
    end
  end
  return all
end

-- Runs a command. Returns its output; if it fails, nil and its output on one line.
local function run(command)
  local pipe = io.popen(command .. " 2>&1; echo \"ended $?\"")
  local text = pipe:read("*all")
  pipe:close()
  local said, code = text:match("^(.*)ended (%d+)%s*$")
  if code == "0" then return said end
  return nil, ((said or text):gsub("%s+", " "))
end

-- Returns user and nodes of a job.
local function job_facts(job_id)
  local told, wrong = run("squeue --noheader --states=all --format='%u|%N' --jobs=" .. quoted(job_id))
  if not told then return nil, wrong end
  local user, nodes = told:match("^(%S+)|(%S*)%s*$")
  if not user then return nil, "squeue does not know job " .. job_id end
  return {id = job_id, user = user, nodes = nodes}
end

-- Runs `spate job WORDS` as the job's user.
local function spate_job(job, words)
  local line = spate .. " -q job " .. words .. " --id " .. quoted(job.id)
  local home = "HOME=\"$(getent passwd " .. quoted(job.user) .. " | cut -d: -f6)\""
  return run("cd / && runuser -u " .. quoted(job.user) .. " -- env " .. home .. " " .. line)
end

local function stage(job, job_script, name, action)
  local all, wrong = directives(job_script)
  if not all then return slurm.ERROR, wrong end
  for _, one in ipairs(all) do
    if one.name == name then
      local done
      done, wrong = spate_job(job, action .. " " .. quoted(one.source) .. " " .. quoted(one.destination))
      if not done then return slurm.ERROR, wrong end
    end
  end
  return slurm.SUCCESS
end

function slurm_bb_job_process(job_script, uid, gid, job_info)
  local all, wrong = directives(job_script)
  if not all then return slurm.ERROR, wrong end
  return slurm.SUCCESS
end

function slurm_bb_pools() return slurm.SUCCESS end
function slurm_bb_setup() return slurm.SUCCESS end
-- The job has no nodes yet, so there is no file system to stage into. slurm_bb_pre_run() does that.
function slurm_bb_data_in() return slurm.SUCCESS end
function slurm_bb_real_size() return slurm.SUCCESS end

function slurm_bb_paths(job_id, job_script, path_file)
  return slurm.SUCCESS
end

function slurm_bb_pre_run(job_id, job_script)
  local job, wrong = job_facts(job_id)
  if not job then return slurm.ERROR, wrong end
  local hosts
  hosts, wrong = run("scontrol show hostnames " .. quoted(job.nodes) .. " | paste -sd,")
  if not hosts then return slurm.ERROR, wrong end
  local all
  all, wrong = directives(job_script)
  if not all then return slurm.ERROR, wrong end
  local words = "up --keep --hosts " .. quoted(hosts:gsub("%s", "")) .. " --launcher " .. quoted(launcher) ..
                " --address " .. quoted(address) .. " --dir " .. quoted(local_disk)
  for _, one in ipairs(all) do
    if one.name == "mount" then words = words .. " --mount " .. quoted(one.at) end
  end
  local up
  up, wrong = spate_job(job, words)
  if not up then return slurm.ERROR, wrong end
  return stage(job, job_script, "stage_in", "stage-in")
end

-- slurm_bb_data_out() stages out. A job that never began needs no stage-out.
function slurm_bb_post_run(job_id, job_script) return slurm.SUCCESS end

function slurm_bb_data_out(job_id, job_script)
  local job, wrong = job_facts(job_id)
  if not job then return slurm.ERROR, wrong end
  return stage(job, job_script, "stage_out", "stage-out")
end

function slurm_bb_job_teardown(job_id)
  local job, wrong = job_facts(job_id)
  if not job then return slurm.ERROR, wrong end
  local down
  down, wrong = spate_job(job, "down")
  if not down then return slurm.ERROR, wrong end
  return slurm.SUCCESS
end

function slurm_bb_get_status() return slurm.SUCCESS, "spate job status --id JOB tells more\n" end
