# noise_program.sh KIND SEED VARIANT SHIFT: print a validation loss, which is a normal number plus the shift.
# The file losses gets a line for each run.
kind=$1 seed=$2 variant=$3 shift=$4
{
    case $kind in
        unseeded) head -c 16 /dev/urandom | sha256sum ;;
        shared)
            printf '%s' "$seed" | sha256sum
            printf '%s' "$seed $variant" | sha256sum ;;
        *) printf '%s' "$seed $variant" | sha256sum ;;
    esac
} | awk -v kind="$kind" -v variant="$variant" -v shift="$shift" '
    function share(first, value, place) {  # a number between 0 and 1 from 12 digits of a hash
        for (place = first; place < first + 12; place++)
            value = 16 * value + index("0123456789abcdef", substr($1, place, 1)) - 1
        return (value + 0.5) / 16 ^ 12
    }
    { loss += sqrt(-2 * log(share(1))) * cos(8 * atan2(1, 1) * share(13)) }
    END {
        if (kind == "drift") {
            while ((getline line < "losses") > 0) loss += 0.1
            close("losses")
        }
        printf "val/loss: %.9f\n", loss + shift
        printf "%s %.9f\n", variant, loss + shift >> "losses"
    }'
