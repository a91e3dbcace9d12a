# SPDX-License-Identifier: Apache-2.0
# Completion of `spate` for fish: the command itself knows what may follow (also names inside the file system).
function __spate_complete
    set -l before (commandline --cut-at-cursor --tokenize --current-process)
    set -l word (commandline --cut-at-cursor --current-token)
    for candidate in (eval $before[1] complete --described -- (string escape -- $before[2..-1] (string unescape -- $word)) 2>/dev/null)
        if test "$candidate" = @files
            __fish_complete_path $word
        else
            echo $candidate
        end
    end
end
complete --command spate --no-files --arguments '(__spate_complete)'
