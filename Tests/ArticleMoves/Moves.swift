import Foundation
import Ubiquity

// The two moves of seeds/icloud-documents.md, call for call as the article has them, in Swift 5. What the article prints
// is printed shorter. Not mended: it is here to show that such code runs.

let iCloudContainerId = "iCloud.com.example.documents"

// Documents Directory URL
let fm = FileManager.default
let localUrl = fm.urls(for: .documentDirectory, in: .userDomainMask)[0]  // Local Document Directory
// iCloud Document Directory
let iCloudUrl = fm.url(forUbiquityContainerIdentifier: iCloudContainerId)!.appendingPathComponent("Documents")

// ローカル->iCloud ファイル移動
func moveFilesToiCloud() {
  DispatchQueue.main.async {
    let fromUrl = localUrl
    let toUrl = iCloudUrl
    let enumerator = fm.enumerator(atPath: fromUrl.path)
    while let file = enumerator?.nextObject() as? String {
      do {
        let fromFileUrl = fromUrl.appendingPathComponent(file)
        let toFileUrl = toUrl.appendingPathComponent(file)
        //try fm.copyItem(atPath: fromFileUrl.path, toPath: toFileUrl.path)
        try fm.setUbiquitous(true, itemAt: fromFileUrl, destinationURL: toFileUrl)
        print("moved: \(file)")
      } catch {
        print("failed: \(file): \(error.localizedDescription)")
      }
    }
  }
}

// iCloud->ローカル ファイル移動
func moveFilesToLocal(remove: Bool) {
  DispatchQueue.main.async {
    let fromUrl = iCloudUrl
    let toUrl = localUrl
    let enumerator = fm.enumerator(atPath: fromUrl.path)
    while let file = enumerator?.nextObject() as? String {
      do {
        let fromFileUrl = fromUrl.appendingPathComponent(file)
        let toFileUrl = toUrl.appendingPathComponent(file)
        try fm.setUbiquitous(false, itemAt: fromFileUrl, destinationURL: toFileUrl)
        print("moved: \(file)")
      } catch {
        print("failed: \(file): \(error.localizedDescription)")
      }
    }
    do {
      if remove == false {
        try fm.copyItem(atPath: toUrl.path, toPath: fromUrl.path)
      }
    } catch {
      print("failed: \(error.localizedDescription)")
    }
  }
}
