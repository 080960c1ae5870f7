"""The services of holdfast and the kernel they share."""
