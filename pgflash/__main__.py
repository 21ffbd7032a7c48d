"""python -m pgflash"""

from pgflash.cli import main

if __name__ == "__main__":
    main()
