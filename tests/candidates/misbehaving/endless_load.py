"""Never gets loaded."""
# ruff: noqa (misbehaves on purpose)

while True:
    pass
