import Foundation

// ArticleMoves to-icloud | to-local | to-local-and-remove: the switch in the app's settings.

switch CommandLine.arguments.dropFirst().first {
case "to-icloud": moveFilesToiCloud()
case "to-local": moveFilesToLocal(remove: false)
case "to-local-and-remove": moveFilesToLocal(remove: true)
default:
  print("usage: ArticleMoves to-icloud | to-local | to-local-and-remove")
  exit(64)
}
DispatchQueue.main.async { exit(0) }
dispatchMain()
