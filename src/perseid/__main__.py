"""python -m perseid, and the command `perseid`."""


def main() -> None:
    try:
        from perseid.commands.cli import main as run
    except KeyboardInterrupt:  # so early that nothing has begun, and nobody could say so
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
