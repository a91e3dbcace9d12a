# SPDX-License-Identifier: Apache-2.0
# Several processes make random calls on the data of files, some of them mapped. Local copies show what is right. DATA_SEED and DATA_STEPS choose the run.
# needs: python3
# seconds: 900
[ "$FRONTEND" = preload ] && maps=no-shared-maps || maps=
steps=${DATA_STEPS:-$([ -n "${QUICK:-}" ] && echo 60 || echo 1500)}
# shellcheck disable=SC2086
python3 "$SPATE_SOURCE/tests/programs/data_checker.py" "$work" "$local" "${DATA_SEED:-$RANDOM}" "$steps" 1 $maps
# shellcheck disable=SC2086
python3 "$SPATE_SOURCE/tests/programs/data_checker.py" "$work" "$local" "${DATA_SEED:-$RANDOM}" "$steps" 4 $maps
