# SPDX-License-Identifier: Apache-2.0
# Random calls on the data of files by several processes, mapped ones too, held against local copies. DATA_SEED, DATA_STEPS.
# needs: python3
# seconds: 900
[ "$FRONTEND" = preload ] && maps=no-shared-maps || maps=
steps=${DATA_STEPS:-$([ -n "${QUICK:-}" ] && echo 60 || echo 1500)}
# shellcheck disable=SC2086
python3 "$SPATE_SOURCE/tests/programs/data_checker.py" "$work" "$local" "${DATA_SEED:-$RANDOM}" "$steps" 1 $maps
# shellcheck disable=SC2086
python3 "$SPATE_SOURCE/tests/programs/data_checker.py" "$work" "$local" "${DATA_SEED:-$RANDOM}" "$steps" 4 $maps
