// What stands under a library's name alone.
